"""A contract as text: what a file holds, in TOML or JSON.

    format = 1
    base = "article"       # a named contract, or a name such as "article:delta=stale"
    p_group = 32           # every field that differs from it, those of the schedule too
    q_block = "whole"      # None has a word

    format = 1
    base = "bf16-flash"
    schedule = "rows"      # another schedule: its fields are then told from its own defaults
    tile = 32

``to_text`` states every field, so that a text says today what it said when it was written, whatever
becomes of its base. ``summary`` is for people. Reading is strict: an unknown field, a wrong type or
a combination without a meaning is refused by the field's name. Files are read by
``dmverify.conformance.contracts``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from types import MappingProxyType
from typing import Any

from dmverify.errors import ContractError, unknown_name
from dmverify.spec.contracts.contract import ABOUT, Contract, Word, shown, words_of
from dmverify.spec.contracts.schedule import SCHEDULES, Rows, Schedule
from dmverify.spec.contracts.vocabulary import value_of, word_of
from dmverify.toml import read_toml

FORMAT = 1
"""Version of the text's form; another one is refused."""

_OWN = tuple(field.name for field in fields(Contract) if field.name not in ABOUT)
SCHEDULE_FIELDS = MappingProxyType(
    {kind: tuple(field.name for field in fields(each)) for kind, each in SCHEDULES.items()}
)
NUMERICS = (*_OWN, *dict.fromkeys(name for names in SCHEDULE_FIELDS.values() for name in names))
"""The fields that decide what comes out, of contracts and of all schedules."""

LARGEST = 1 << 16  # characters
READERS: MappingProxyType[str, Callable[[str], Any]] = MappingProxyType(
    {"toml": read_toml, "json": lambda text: json.loads(text, object_pairs_hook=_table)}
)


def to_text(contract: Contract) -> str:
    """Every field in TOML; ``from_text`` gives the same contract."""
    lines = [f"{key} = {_toml(value)}\n" for key, value in to_table(contract).items()]
    return "".join(lines)


def to_table(contract: Contract) -> dict[str, Word]:
    """Every field as plain data, ready for json."""
    base = contract.name.partition(":")[0]
    about: dict[str, Word] = {"format": FORMAT, "base": base, "summary": contract.summary}
    return about | words_of(contract)


def from_text(text: str, named: Callable[[str], Contract], *, form: str = "toml") -> Contract:
    """The contract that a text says.

    Args:
        text: TOML or JSON.
        named: The contract of the name that ``base`` is.
        form: ``toml`` or ``json``.

    Raises:
        ContractError: For text of another form or version, an unknown field, a wrong value, or
            fields that exclude each other; the message names the field.
        UnknownNameError: For a base, a field or a scale rule that does not exist.
    """
    if len(text) > LARGEST:
        raise _no_text(f"{len(text)} characters", f"has {LARGEST} at most")
    try:
        table = READERS[form](text)
    except (ValueError, RecursionError) as error:
        raise _no_text(str(error)[:200], f"is {form.upper()}") from error
    if not isinstance(table, dict):
        raise _no_text(f"a {type(table).__name__}", "is a table of fields")
    return from_table(table, named)


def from_table(table: Mapping[str, object], named: Callable[[str], Contract]) -> Contract:
    """The contract that plain data says (see ``from_text``).

    Raises:
        ContractError: If a field is missing or unknown, or its value is none of the field's.
    """
    _require_form(table)
    base = table.get("base")
    if not isinstance(base, str):
        raise ContractError(
            f"base={base!r:.80}",
            rule="a contract's file names the contract that it differs from as its base",
            fix="add base = \"article\", or another of 'dmverify list contracts'",
        )
    words = {key: word for key, word in table.items() if key not in ("format", *ABOUT)}
    plain = named(base)
    summary: Any = table.get("summary", f"like {base}" if words else plain.summary)
    return replace(changed(plain, words), summary=summary)


def changed(contract: Contract, words: Mapping[str, object]) -> Contract:
    """The contract with other values in some fields, as files say them.

    Raises:
        ContractError: For a wrong value, or fields that exclude each other.
        UnknownNameError: For a field that neither contracts nor the schedule have.
    """
    for key in words:
        if key not in NUMERICS:
            raise unknown_name("contract field", key[:80], NUMERICS)
    values: dict[str, Any] = {name: value_of(name, word) for name, word in words.items()}
    schedule = contract.schedule
    kind = values.pop("schedule", schedule.kind)
    moved = {name: values.pop(name) for name in NUMERICS if name not in _OWN and name in values}
    return replace(contract, **values, schedule=_scheduled(schedule, kind, moved))


def _scheduled(schedule: Schedule, kind: object, values: dict[str, Any]) -> Schedule:
    if not isinstance(kind, str) or kind not in SCHEDULES:
        raise ContractError(
            f"schedule={kind!r:.80}",
            rule=f"schedule is one of {', '.join(SCHEDULES)}",
            fix="give schedule one of these",
        )
    for name in values:
        if name not in SCHEDULE_FIELDS[kind]:
            raise ContractError(
                f"{name}={values[name]!r:.80}, schedule={kind}",
                rule=f"schedule {kind} has the fields {', '.join(SCHEDULE_FIELDS[kind])}",
                fix=f"leave {name} out, or take another schedule",
            )
    if kind == schedule.kind:
        return replace(schedule, **values)
    return SCHEDULES[kind](**values)


def says(text: str, contract: Contract) -> bool:
    """Whether the text of a recording, in JSON, says this contract.

    A field that came later is not in it, and had its default. An unknown field, or another version,
    says something else.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        return False
    told = {key: word for key, word in table.items() if key not in ("format", "base", "summary")}
    if told.pop("name", None) != contract.name or "operand_rule" not in told:
        return False
    due = words_of(contract)
    kinds = (Contract, SCHEDULES[contract.schedule.kind])
    default = {each.name: each.default for kind in kinds for each in fields(kind)}
    known = {key: word_of(key, x) for key, x in default.items() if key in due and x is not MISSING}
    return _same({"schedule": Rows.kind, **known, **told}, due)


def _same(told: Mapping[str, object], due: Mapping[str, object]) -> bool:
    return json.dumps(told, sort_keys=True) == json.dumps(due, sort_keys=True)  # 1 is not true


def _require_form(table: Mapping[str, object]) -> None:
    found = table.get("format")
    if type(found) is not int or found != FORMAT:
        raise ContractError(
            f"format={found!r:.80}",
            rule=f"this release reads contracts of format {FORMAT}",
            fix=f"write format = {FORMAT}, or read it with the release that it was made for",
        )


def _table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON, in which a name stands once as it does in TOML."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name that stands twice")
    return table


def _no_text(value: str, rule: str) -> ContractError:
    return ContractError(
        f"a contract's text with {value}",
        rule=f"the text of a contract {rule}",
        fix='write format = 1, base = "article" and the fields that differ',
    )


def _toml(value: Word) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else shown(value)
