"""``dmverify tomograph``: row sums of a kernel's dS and its kind of delta, from gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource
from rich.markup import escape
from rich.table import Table

from dmverify.cli.inputs import seed_of
from dmverify.cli.output import console, in_process_option, json_option, print_json, progress
from dmverify.cli.records import as_record
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.tensor_files import Source, bring_file, brought_case
from dmverify.conformance.tomography.tomogram import Tomogram, summary, tomograph

DIGITS = 3
SIZES = ("length", "head_dim", "batch", "heads", "kv_heads")
ANY = "article"  # calls are asked under the kernel's contract, whatever the case is made with


@dataclass(frozen=True)
class File:
    """The file whose tensors are asked, if any, and what it may leave open."""

    inputs: str | None
    causal: bool | None
    softmax_scale: float | None

    def source(self) -> Source | None:
        """Where the tensors are; None without a file.

        Raises:
            UsageError: For a softmax scale of no file.
            InputError: For a name that is none.
        """
        if self.inputs is not None:
            return Source.parse(self.inputs, causal=self.causal, softmax_scale=self.softmax_scale)
        if self.softmax_scale is not None:
            raise click.UsageError("--softmax-scale needs --inputs")
        return None


@dataclass(frozen=True)
class Options:
    """What the kernel is asked for, where it runs, and how the row sums are shown."""

    contract: str | None
    in_process: bool
    as_json: bool


@click.command()
@click.argument("kernel")
@click.option("--contract", help="Contract that the kernel is asked for; its own one unless given.")
@click.option(
    "--form",
    type=click.Choice(["groups", "signs", "probe"]),
    default="groups",
    show_default=True,
    help="How row sums are read: groups or signs, from dK; or probe, from dQ, for all "
    "rows, which needs keys that are not centred.",
)
@click.option("--length", default=256, show_default=True, help="Number of queries and of keys.")
@click.option("--head-dim", default=64, show_default=True, help="Channels of a head.")
@click.option("--batch", default=4, show_default=True, help="Sequences of each call.")
@click.option("--heads", default=4, show_default=True, help="Number of query heads.")
@click.option(
    "--kv-heads", default=4, show_default=True, help="Number of key heads, a divisor of --heads."
)
@click.option(
    "--causal/--full",
    default=None,
    help="Whether later keys are hidden from each query; they are unless said.",
)
@click.option("--inputs", metavar="FILE[:PREFIX]", help="File whose K, V, dO and sizes are taken.")
@click.option(
    "--softmax-scale", type=float, help="Softmax scale of an --inputs file that states none."
)
@click.option(
    "--spread",
    default=2.0,
    show_default=True,
    help="Factor that queries are multiplied with, and so the size of the logits.",
)
@click.option(
    "--runs", default=8, show_default=True, help="Calls of the form groups at each offset."
)
@click.option(
    "--repeats", default=2, show_default=True, help="How often each call is repeated, to see noise."
)
@seed_of("Seed of the inputs.")
@in_process_option
@json_option
@click.pass_context
@as_record(Options)
@as_record(File, "file")
def command(ctx: click.Context, /, kernel: str, options: Options, file: File, **sizes: Any) -> None:
    """Recover the row sums of dS from the gradients of KERNEL, and tell which delta it takes.

    With --inputs, the K, V and dO of a file are asked; queries are the form's, since row sums can
    only be read from rows that are orthogonal.

    Exit code 0: the delta is the one its contract promises; 1: it is another; 5: undecided.
    """
    source = file.source()
    if source is None:
        setup = Setup(**sizes, causal=file.causal is not False)
    else:
        setup = _on_file(ctx, source, sizes)
    with progress() as listener:
        found = tomograph(
            kernel,
            options.contract,
            setup=setup,
            in_process=options.in_process,
            listener=listener,
        )
    if options.as_json:
        print_json(found.to_json())
    else:
        _show(found)
    ctx.exit(found.exit_code)


def _on_file(ctx: click.Context, source: Source, options: dict[str, Any]) -> Setup:
    """The setup on the one case of a file."""
    said = [n for n in SIZES if ctx.get_parameter_source(n) is not ParameterSource.DEFAULT]
    if said:
        raise click.UsageError(f"--inputs brings its sizes: leave out {', '.join(said)}")
    ids = bring_file(source)
    if len(ids) > 1:
        raise click.UsageError(f"{source} holds {len(ids)} cases: name one as FILE:PREFIX")
    rest = {name: value for name, value in options.items() if name not in SIZES}
    return Setup.on(brought_case(ids[0], ANY), **rest)


def _show(found: Tomogram) -> None:
    out = console()
    out.print(
        f"[bold]{escape(found.kernel)}[/] asked for [bold]{escape(found.contract)}[/], "
        f"form {found.setup.form}",
        soft_wrap=True,
    )
    if found.scans:
        out.print(_rows(found))
        out.print(_modes(found))
    style = {0: "green", 1: "bold red"}.get(found.exit_code, "yellow")
    kept = {0: " as promised", 1: f", but {found.promised} was promised"}.get(found.exit_code, "")
    out.print(f"delta: [{style}]{escape(found.decision.mode or found.verdict)}{kept}[/]")
    out.print(f"{found.verdict}: {escape(found.decision.reason)}", soft_wrap=True)


def _rows(found: Tomogram) -> Table:
    """The row sums: how large, how well known."""
    table = Table(
        title="row sums of cast dS over sum|dS|: median, 90 %, largest",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for name in ("V offset", "rows", "|R + cast|", "error bar", "noise", "stored"):
        table.add_column(name, no_wrap=True)
    for scan in found.scans:
        parts = summary(scan)
        cells = [_few(parts[name]) for name in ("value", "bar", "noise")]
        table.add_row(f"{scan.offset:g}", str(len(scan.value)), *cells, escape(scan.stored))
    return table


def _modes(found: Tomogram) -> Table:
    """The regressions: each coordinate together, then each mode alone."""
    table = Table(
        title="regressions, with 99.9 % intervals", title_justify="left", box=None, pad_edge=False
    )
    for name in ("V offset", "on", "slope", "correlation", "left over"):
        table.add_column(name, no_wrap=True)
    for fit in found.fits:
        offset = f"{fit.offset:g}"
        for name, estimate in fit.coefficients.items():
            table.add_row(offset, f"coordinate {name}", escape(str(estimate)), "", "")
        for name, estimate in fit.shapes.items():
            table.add_row(offset, f"row shapes, {name}", escape(str(estimate)), "", "")
        for mode in fit.modes:
            cells = ["" if x is None else escape(str(x)) for x in (mode.slope, mode.correlation)]
            table.add_row(offset, f"mode {mode.mode}", *cells, f"{mode.left:.{DIGITS}g}")
    return table


def _few(numbers: list[float]) -> str:
    return ", ".join(f"{x:.2g}" for x in numbers)
