"""Runs in parts, tried at length."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from dmverify.cli.lab.options import out_option, write_record
from dmverify.lab.spread.loss import survive

kernel_argument = click.argument("kernel", default="simulation")
jobs_option = click.option("-j", "--jobs", type=click.IntRange(1), default=2, show_default=True)


@click.command()
@kernel_argument
@click.option("--cases", "number", default=5000, show_default=True, help="How many are asked.")
@jobs_option
@out_option
@click.pass_context
def loss(ctx: click.Context, kernel: str, number: int, jobs: int, out: Path) -> None:
    """Kill workers of a run over Ray, then the run; exit code 1 if its report is another one."""
    with tempfile.TemporaryDirectory() as folder:
        survived = survive(kernel, number, jobs, Path(folder))
    write_record(out, asdict(survived))
    ctx.exit(0 if survived.same else 1)
