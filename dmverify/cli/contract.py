"""``dmverify contract``: read a contract, or guess which one a kernel keeps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, in_process_option, json_option, print_json, timeout_option
from dmverify.conformance.contracts import judged_by, resolve_contract
from dmverify.conformance.guess import guess as find
from dmverify.conformance.resolve import under_test
from dmverify.spec.contracts import SCHEDULES, VOCABULARY, differences, idle, nearest, to_table
from dmverify.spec.contracts.text import NUMERICS
from dmverify.spec.contracts.vocabulary import MEANINGS, values_of

if TYPE_CHECKING:
    from dmverify.conformance.guess import Candidate
    from dmverify.spec.contracts import Contract

SHOWN = 8  # candidates in the table; the JSON has all


@click.group()
def command() -> None:
    """Read a contract's file, or guess which contract a kernel keeps."""


@command.command()
@click.argument("contract")
@json_option
def check(contract: str, as_json: bool) -> None:
    """Show every field of CONTRACT, a file (.toml, .json) or a name, and what has no effect.

    Exit code 0: it is a contract; 2: it is none, and the message names the field.
    """
    found = describe(resolve_contract(contract))
    if as_json:
        print_json(found)
        return
    out = console()
    out.print(f"[bold]{escape(found['name'])}[/]: {escape(found['summary'])}")
    out.print(f"judged by {found['judged_by']}")
    table = Table(box=None, pad_edge=False)
    for title in ("field", "value", found["nearest"], "no effect, since"):
        table.add_column(title, overflow="fold")
    for row in found["fields"]:
        table.add_row(*(escape(_text(row[key])) for key in ("name", "value", "nearest", "idle")))
    out.print(table)
    out.print(_nearest_in_words(found), soft_wrap=True)


@command.command()
@json_option
def fields(as_json: bool) -> None:
    """List every field that a contract's file may have, with its values and what they mean."""
    rows = [*fields_of_contracts()]
    if as_json:
        print_json([{"name": name, "values": x, "meaning": y} for name, x, y in rows])
        return
    table = Table(box=None, pad_edge=False)
    for title in ("field", "value", "meaning"):
        table.add_column(title, overflow="fold")
    for name, values, meanings in rows:
        for first, (value, meaning) in enumerate(zip_longest(values, meanings, fillvalue="")):
            table.add_row("" if first else name, escape(value), escape(meaning))
    console().print(table)


def fields_of_contracts() -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Name, values and meanings of every field, a meaning for each value or one for all."""
    for name in NUMERICS:
        values = tuple(SCHEDULES) if name == "schedule" else values_of(name)
        words = VOCABULARY.get(name)
        yield name, values, (MEANINGS[name],) if words is None else tuple(words.values())


@command.command()
@click.argument("kernel")
@timeout_option
@in_process_option
@json_option
def guess(kernel: str, timeout: float | None, in_process: bool, as_json: bool) -> None:
    """Ask KERNEL a few small cases and rank the named contracts by how much of it they explain.

    Exit code 0: the first one explains every element; 1: none does; 3: the kernel gave no answer.
    """
    found = find(under_test(kernel, timeout=timeout, in_process=in_process))
    if as_json:
        print_json({"kernel": kernel, "contracts": [_plain(one) for one in found]})
    else:
        _show(kernel, found)
    click.get_current_context().exit(0 if found[0].conforms else 1)


def describe(contract: Contract) -> dict[str, Any]:
    """A contract field by field, beside the nearest named one."""
    near, reasons, table = nearest(contract), idle(contract), to_table(contract)
    assert near is not None
    beside = to_table(near)
    return {
        "name": contract.name,
        "format": table["format"],
        "summary": contract.summary,
        "bit_exact": contract.bit_exact,
        "judged_by": judged_by(contract),
        "nearest": near.name,
        "differences": differences(contract, near),
        "fields": [
            {
                "name": key,
                "value": value,
                "nearest": beside.get(key, ""),
                "idle": reasons.get(key, ""),
            }
            for key, value in table.items()
            if key not in ("format", "base", "summary")
        ],
    }


def _nearest_in_words(found: dict[str, Any]) -> str:
    changed = found["differences"]
    if not changed:
        return f"the same as {found['nearest']}"
    words = ", ".join(f"{key}={_text(value)}" for key, value in changed.items())
    return f"nearest named contract: {found['nearest']}, which differs in {words}"


def _plain(one: Candidate) -> dict[str, Any]:
    return {
        "name": one.contract.name,
        "conforms": one.conforms,
        "outside": one.outside,
        "share": one.share,
    }


def _show(kernel: str, found: tuple[Candidate, ...]) -> None:
    out = console()
    table = Table(box=None, pad_edge=False)
    table.add_column("contract", overflow="fold")
    for name in found[0].outside:
        table.add_column(name, justify="right")
    for one in found[:SHOWN]:
        table.add_row(one.contract.name, *(f"{100 * x:.3g} %" for x in one.outside.values()))
    out.print("elements outside what a contract allows, the closest contract first:")
    out.print(table)
    first = found[0]
    verdict = "conforms to" if first.conforms else "is closest to"
    out.print(f"[bold]{escape(kernel)}[/] {verdict} [bold]{escape(first.contract.name)}[/] here")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
