"""``dmverify run``: the second of three steps, a kernel's outputs, unjudged."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.output import in_process_option, progress, timeout_option
from dmverify.conformance.questions import list_asked, read_asked
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.three_steps import run_cases
from dmverify.conformance.words import visible


@click.command()
@click.argument("kernel")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--cases", "listed", type=click.Path(path_type=Path), help="List from 'gen'.")
@click.option("--case", "cases", multiple=True, help="Case id; may be repeated.")
@timeout_option
@in_process_option
@click.option("--contract", help="Contract of the ids, if not the kernel's own.")
def command(
    kernel: str,
    out: Path,
    listed: Path | None,
    cases: tuple[str, ...],
    timeout: float | None,
    in_process: bool,
    contract: str | None,
) -> None:
    """Run KERNEL on cases and write a recording to the directory OUT.

    The same command on the directory of an interrupted run goes on where that stopped.
    """
    if not (listed or cases):
        raise click.UsageError("name cases with --cases FILE or --case ID")
    asked = read_asked(listed) if listed else ()
    found = resolve_kernel(kernel, timeout=timeout, in_process=in_process)
    if cases:
        asked += list_asked(contract=contract or found.contract, cases=cases)
    with progress() as listener:
        recording = run_cases(found, asked, emit=listener, out=out)
    left = f", {len(recording.unanswered)} without" if recording.unanswered else ""
    click.echo(visible(f"{len(recording.answers)} answers in {out}{left}"))
