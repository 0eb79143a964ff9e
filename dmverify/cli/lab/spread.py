"""Runs in parts, tried at length."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table

from dmverify.cli.lab.options import out_option, write_record
from dmverify.cli.output import console
from dmverify.lab.spread import load as simulated
from dmverify.lab.spread.loss import survive
from dmverify.lab.spread.timing import time_all

kernel_argument = click.argument("kernel", default="simulation")
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Number of processes.",
)


@click.command()
@kernel_argument
@click.option("--cases", "number", default=5000, show_default=True, help="Number of cases.")
@jobs_option
@out_option
@click.pass_context
def loss(ctx: click.Context, kernel: str, number: int, jobs: int, out: Path) -> None:
    """Kill workers of a run over Ray, then the run; exit code 1 if its report is another one."""
    with tempfile.TemporaryDirectory() as folder:
        survived = survive(kernel, number, jobs, Path(folder))
    write_record(out, asdict(survived))
    ctx.exit(0 if survived.same else 1)


@click.command()
@kernel_argument
@out_option
def load(kernel: str, out: Path) -> None:
    """Measure what a run over Ray costs its driver, and simulate up to 4,096 workers."""
    with tempfile.TemporaryDirectory() as folder:
        costs = simulated.measure(kernel, Path(folder))
    rows = [
        simulated.simulate(costs, workers, seconds)
        for seconds in simulated.SECONDS
        for workers in simulated.WORKERS
    ]
    write_record(out, {"costs": asdict(costs), "rows": [asdict(row) for row in rows]})
    table = Table(box=None, pad_edge=False)
    for name in ("seconds a case", "workers", "busy", "cases a second"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = (f"{row.seconds:g}", str(row.workers), f"{row.busy:.0%}", f"{row.cases:.0f}")
        table.add_row(*cells)
    console().print(table)
    console().print(
        f"driver: {1e3 * costs.block:.2f} ms a block, {1e6 * costs.order:.0f} us to order and "
        f"{1e6 * costs.keep:.0f} us and {costs.size:.0f} bytes to keep a case; so at most "
        f"{1 / costs.of_case:.0f} cases a second",
        soft_wrap=True,
    )


@click.command()
@kernel_argument
@click.option("--cases", "number", default=1000, show_default=True, help="Number of cases.")
@jobs_option
@out_option
@click.pass_context
def timing(ctx: click.Context, kernel: str, number: int, jobs: int, out: Path) -> None:
    """Time cases in a loop, under pytest, with -j and over Ray; exit code 1 if findings differ.

    Only on idle cores, as many as processes, do the figures say something.
    """
    with tempfile.TemporaryDirectory() as folder:
        rows = time_all(kernel, number, jobs, Path(folder))
    write_record(out, {"cases": number, "jobs": jobs, "rows": [asdict(row) for row in rows]})
    table = Table(box=None, pad_edge=False)
    ratio_name = f"wall / (loop / {jobs})"
    for name in ("way", "start-up s", "wall s", "CPU s", ratio_name, "rounds", "same"):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = tuple(f"{x:.1f}" for x in (row.start_up, row.wall, row.cpu))
        rounds = " ".join(f"{ratio:.2f}" for ratio in row.ratios)
        table.add_row(row.way, *numbers, f"{row.ratio:.2f}", rounds, "yes" if row.same else "NO")
    console().print(table)
    ctx.exit(0 if all(row.same for row in rows) else 1)
