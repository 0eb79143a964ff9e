"""The named contracts, one file each in ``data``, and how a name with modifiers is read.

A file there holds what any contract's file holds (``text``); its name is the contract's, and its
comments say the source. A new one is a new file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files

from dmverify.errors import ContractError, UnknownNameError, unknown_name
from dmverify.spec.contracts.contract import Contract, register
from dmverify.spec.contracts.text import changed, from_text
from dmverify.spec.contracts.vocabulary import DELTAS, DS_CASTS, read_word

SHOWN_FIRST = ("article", "upstream", "bundled")
_ROOT = Contract(base="", summary="", operand_rule="amax")
"""What the files in ``data`` are told from that name no base: the defaults of ``Contract``."""


def read_data() -> dict[str, str]:
    """The text of every file of ``data``, by its name without the ending."""
    return {
        path.name.removesuffix(".toml"): path.read_text("utf-8")
        for path in files(__package__).joinpath("data").iterdir()
        if path.name.endswith(".toml")
    }


def contracts_of(texts: Mapping[str, str]) -> dict[str, Contract]:
    """Texts as contracts, in the order of the list, told from each other.

    Raises:
        ContractError, UnknownNameError: As for ``from_text``; the message names the file.
    """
    found: dict[str, Contract] = {"": _ROOT}

    def named(name: str) -> Contract:
        if name not in found:
            try:
                found[name] = replace(from_text(texts[name], named), base=name)
            except (ContractError, UnknownNameError) as error:
                raise type(error)(
                    f"{error.value} in contracts/data/{name}.toml", rule=error.rule, fix=error.fix
                ) from error
        return found[name]

    rest = sorted(texts.keys() - set(SHOWN_FIRST))
    return {name: register(named(name)) for name in (*SHOWN_FIRST, *rest)}


CONTRACTS = contracts_of(read_data())
ARTICLE, UPSTREAM, BUNDLED = (CONTRACTS[name] for name in SHOWN_FIRST)


def get_contract(name: str, **changes: str) -> Contract:
    """The contract called ``base`` or ``base:key=value,...``.

    Args:
        name: For example ``article`` or ``bundled:delta=stale,ds_cast=zero-sum``; any field can be
            changed, and ``Contract.name`` says every one that differs.
        **changes: The same modifiers as keywords; they win.

    Raises:
        UnknownNameError: If no contract has that base, or none has such a field.
        ContractError: For a value that a field cannot have, or fields that exclude each other.

    >>> get_contract("article:q_block=whole,tile=32").name
    'article:q_block=whole,tile=32'
    """
    base, colon, tail = name.partition(":")
    if base not in CONTRACTS:
        raise unknown_name("contract", base[:80], CONTRACTS, shown_by="dmverify list contracts")
    words = (_modifiers(tail) if colon else {}) | changes
    return _modified(CONTRACTS[base], tuple(words.items()))


@lru_cache(maxsize=256)  # every case asks for its contract many times
def _modified(contract: Contract, words: tuple[tuple[str, str], ...]) -> Contract:
    return changed(contract, {key: read_word(key, word) for key, word in words})


def find_contract(name: str) -> Contract | None:
    """``get_contract``, with None for a name that no contract has."""
    try:
        return get_contract(name)
    except (UnknownNameError, ContractError):
        return None


def every_mode(base: str) -> tuple[str, ...]:
    """The names of a contract in every delta mode and cast.

    Raises:
        UnknownNameError, ContractError: As for ``get_contract``.

    >>> every_mode("bundled")[:2]
    ('bundled:delta=stale', 'bundled:delta=stale,ds_cast=zero-sum')
    """
    changes = ({"delta": delta, "ds_cast": cast} for delta in DELTAS for cast in DS_CASTS)
    return tuple(get_contract(base, **change).name for change in changes)


def read_contract(text: str, *, form: str = "toml") -> Contract:
    r"""The contract of a text in TOML or JSON, told from a named one (``text.from_text``).

    Raises:
        ContractError, UnknownNameError: As for ``from_text``.

    >>> read_contract('format = 1\nbase = "article"\np_group = 16').name
    'article:p_group=16'
    """
    return from_text(text, get_contract, form=form)


def _modifiers(tail: str) -> dict[str, str]:
    pairs = [_modifier(word) for word in tail.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise ContractError(
            tail[:200],
            rule="a contract's name sets each field at most once",
            fix="keep one of the two",
        )
    return dict(pairs)


def _modifier(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise ContractError(
            f"modifier {word[:80]!r}",
            rule="what follows the colon are modifiers key=value, separated by commas",
            fix="write for example article:delta=stale",
        )
    return key, value
