"""``dmverify expect``: how wrong a kernel that keeps a contract will be."""

from __future__ import annotations

from dataclasses import dataclass

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.inputs import Files, inputs_options, seed_of
from dmverify.cli.output import console, json_option, print_json
from dmverify.cli.records import as_record
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.expect import RELATIVE_TO, Expectation, expect_case, expect_shape
from dmverify.conformance.families import generate
from dmverify.conformance.tensor_files import name_cases
from dmverify.errors import InputError
from dmverify.spec.problem import Problem

DRAWN = ("shape", "kv_heads", "spread")  # options that say of drawn inputs what they are
DEFAULT_SHAPE = "1,2,1024,128"


@dataclass(frozen=True)
class Options:
    """Of what an estimate is made."""

    contract: str
    shape: str
    kv_heads: int | None
    spread: float
    case_id: str | None
    seed: int


@click.command()
@click.argument("contract", default="article")
@click.option(
    "--shape", default=DEFAULT_SHAPE, show_default=True, help="Batch, heads, length, head dim."
)
@click.option("--kv-heads", type=int, help="Key heads, if not one for each query head.")
@click.option(
    "--spread",
    default=1.0,
    show_default=True,
    help="Factor that queries are multiplied with, and so the size of the logits.",
)
@click.option("--case", "case_id", help="Inputs of this case instead of drawn ones of a shape.")
@seed_of("Seed of the inputs and of the roundings.")
@inputs_options
@json_option
@as_record(Options)
def command(inputs: Files, as_json: bool, options: Options) -> None:
    """Estimate how far the outputs of CONTRACT are from attention, on drawn or given inputs.

    An estimate, and no bound: typical (root mean square) and 95 % error of each output, over its
    root mean square; of LSE in nats. Of the same order on other inputs of the same kind.
    """
    stated = resolve_contract(options.contract)
    given = bool(inputs.files or options.case_id)
    if given:
        _require_no_shape()
    files = inputs.sources() if given else ()
    ids, _ = name_cases((options.case_id,) if options.case_id else (), files)
    if len(ids) > 1:
        raise click.UsageError(
            f"an estimate is made for one case: name it with --case {' or '.join(ids)}"
        )
    if ids:
        found = expect_case(stated, generate(ids[0], contract=stated.name), seed=options.seed)
    else:
        hides = True if inputs.causal is None else inputs.causal
        problem = _problem(options.shape, options.kv_heads, hides, inputs.softmax_scale)
        found = expect_shape(stated, problem, spread=options.spread, seed=options.seed)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _require_no_shape() -> None:
    """Raises if the caller says sizes or a spread of inputs that have their own."""
    said = click.get_current_context().get_parameter_source
    names = [name for name in DRAWN if said(name) is click.core.ParameterSource.COMMANDLINE]
    if names:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise click.UsageError(f"--case and --inputs bring their numbers: leave out {words}")


def _problem(shape: str, kv_heads: int | None, causal: bool, scale: float | None) -> Problem:
    try:
        batch, heads, length, head_dim = map(int, shape.split(","))
    except ValueError as error:
        raise InputError(
            f"shape {shape!r:.60}",
            rule="a shape is batch,heads,length,head_dim",
            fix=f"write for example {DEFAULT_SHAPE}",
        ) from error
    return Problem(
        batch=batch,
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        queries=length,
        keys=length,
        head_dim=head_dim,
        causal=causal,
        softmax_scale=scale,
    )


def _show(found: Expectation) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("output", no_wrap=True)
    for name in ("typical", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("its bound in 'verify' is relative to", overflow="fold")
    for name, one in found.errors.items():
        sizes = ["none", ""] if one.reason else [f"{one.typical:.3g}", f"{one.most:.3g}"]
        table.add_row(name, *sizes, escape(one.reason or RELATIVE_TO[name]))
    out = console()
    out.print(f"[bold]{escape(found.contract.name)}[/]: {escape(found.contract.summary)}")
    same = found.evaluated == found.problem
    out.print(
        escape(f"{found.problem}" + ("" if same else f", evaluated on {found.evaluated}")),
        soft_wrap=True,
    )
    out.print("expected error from attention, over the output's root mean square (LSE: nats)")
    out.print(table)
