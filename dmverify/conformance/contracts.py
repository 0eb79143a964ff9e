"""How what a caller calls a contract becomes one.

| what | contract |
|---|---|
| a ``Contract`` | itself |
| a path that ends in ``.toml`` or ``.json`` | what the file says (``spec.contracts.text``) |
| a name that a package offers | what its entry point in the group ``GROUP`` names: |
| | a ``Contract``, or the text of a file |
| a name, with or without ``:key=value,...`` | the named contract, with these fields changed |

What travels from here on, in lists, recordings, reports and to other processes, is
``Contract.name``: it says every field that differs from a named contract, so that whoever gets it
needs neither the file nor the package.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from dmverify.conformance.words import describe_error
from dmverify.errors import ContractError, DmverifyError, InputError, unknown_name
from dmverify.files import read_regular
from dmverify.spec.contracts import CONTRACTS, Contract, get_contract, read_contract
from dmverify.spec.ledger.bounds.derived import is_derived

GROUP = "dmverify.contracts"  # of entry points, by which a package offers its contracts by name
FORMS = ("toml", "json")
LARGEST = 1 << 16  # bytes of a contract's file


def resolve_contract(what: str | os.PathLike[str] | Contract) -> Contract:
    """The contract that a caller means, by the table above, told from a named one.

    Args:
        what: A contract, its name, or the path of its file.

    Raises:
        UnknownNameError: If there is no such contract, or a field of it does not exist.
        ContractError: For a wrong value, or fields that exclude each other.
        InputError: For a file that is none of the table's, cannot be read or is too large.
    """
    if isinstance(what, Contract):
        return replace(get_contract(what.name), summary=what.summary)
    if isinstance(what, os.PathLike):
        return read_file(Path(what))
    if not isinstance(what, str):
        raise InputError(
            f"a contract of type {type(what).__name__}",
            rule="a contract is a name, the path of a file, or a Contract",
            fix="pass 'article', 'mine.toml', or what read_contract gives",
        )
    if is_path(what):
        return read_file(Path(what))
    base, colon, tail = what.partition(":")
    offered = {} if base in CONTRACTS else offered_contracts()
    if base in offered:
        own = _load(offered[base]).name
        joined = f"{own}{',' if ':' in own else ':'}{tail}" if colon else own
        return get_contract(joined)
    if base not in CONTRACTS:
        raise unknown_name(
            "contract",
            base[:80],
            (*CONTRACTS, *offered),
            rule="a contract is a name of the list, or a file that ends in .toml or .json",
            shown_by="dmverify list contracts",
        )
    return get_contract(what)


def is_path(text: str) -> bool:
    """Whether a text is a path and not a name: it has a folder, or the ending of a file."""
    return "/" in text or _form(Path(text)) in FORMS


def read_file(path: Path) -> Contract:
    """The contract of a file.

    Raises:
        InputError: If it cannot be read, is no plain file, is too large or is not UTF-8.
        ContractError, UnknownNameError: As for ``read_contract``, with the file's name.
    """
    form = _form(path)
    if form not in FORMS:
        raise InputError(
            f"{path}", rule="a contract's file ends in .toml or .json", fix="rename it"
        )
    try:
        text = read_regular(path, largest=LARGEST).decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(
            f"{path} ({describe_error(error)})",
            rule=f"a contract's file is a text in UTF-8 of {LARGEST} bytes at most",
            fix="name a file that 'dmverify contract check' reads",
        ) from error
    try:
        return read_contract(text, form=form)
    except DmverifyError as error:
        raise type(error)(f"{error.value} in {path}", rule=error.rule, fix=error.fix) from error


def offered_contracts() -> dict[str, EntryPoint]:
    """Contracts that installed packages offer, by name.

    Raises:
        ContractError: If a name is taken, by a named contract or by another package.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.get(point.name)
        taken = point.name in CONTRACTS or (other is not None and other.value != point.value)
        if taken or is_path(point.name) or ":" in point.name:
            raise ContractError(
                f"contract {point.name!r} of {point.value}",
                rule=f"a name in the group {GROUP} is a word, and not that of another contract",
                fix="rename it in the package's metadata, or name a file",
            )
        found[point.name] = point
    return found


def _load(point: EntryPoint) -> Contract:
    try:
        found = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(0) in a module would end the command as a pass
        raise ContractError(
            f"contract {point.name!r} of {point.value} ({describe_error(error)})",
            rule="an entry point names an importable object",
            fix="repair the package, or name a file",
        ) from error
    if isinstance(found, Contract):
        return found
    if isinstance(found, str):
        return read_contract(found)
    raise ContractError(
        f"contract {point.name!r} of {point.value}, of type {type(found).__name__}",
        rule="what an entry point names is a Contract, or the text of its file",
        fix="give read_contract(text), or the text",
    )


def _form(path: Path) -> str:
    return path.suffix.removeprefix(".").lower()


def judged_by(contract: Contract) -> str:
    """What answers are held to under a contract, in words."""
    if contract.bit_exact:
        return "its bits"
    ledger = " and the exact ledger" if is_derived(contract) else ""
    return f"certified enclosures{ledger}"
