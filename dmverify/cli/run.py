"""``dmverify run``: the second of three steps, a kernel's outputs, unjudged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dmverify.cli.inputs import Files, inputs_options
from dmverify.cli.output import in_process_option, progress, timeout_option
from dmverify.cli.records import as_record
from dmverify.conformance.questions import list_asked, read_asked
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.tensor_files import name_cases
from dmverify.conformance.three_steps import run_cases
from dmverify.conformance.words import visible


@dataclass(frozen=True)
class Options:
    """Which cases, under which contract, and how the kernel is run."""

    listed: Path | None
    cases: tuple[str, ...]
    timeout: float | None
    in_process: bool
    contract: str | None


@click.command()
@click.argument("kernel")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--cases", "listed", type=click.Path(path_type=Path), help="List of cases, from 'dmverify gen'."
)
@click.option("--case", "cases", multiple=True, help="Case id to run; repeatable.")
@timeout_option
@in_process_option
@click.option("--contract", help="Contract of the --case ids; the kernel's own one unless given.")
@inputs_options
@as_record(Options)
def command(kernel: str, out: Path, inputs: Files, options: Options) -> None:
    """Run KERNEL on cases and write a recording to the directory OUT.

    The same command on the directory of an interrupted run goes on where that stopped.
    """
    if not (options.listed or options.cases or inputs.files):
        raise click.UsageError("name cases with --cases FILE, --case ID or --inputs FILE")
    ids, _ = name_cases(options.cases, inputs.sources())
    asked = read_asked(options.listed) if options.listed else ()
    found = resolve_kernel(kernel, timeout=options.timeout, in_process=options.in_process)
    if options.cases or not options.listed:
        asked += list_asked(contract=options.contract or found.contract, cases=ids)
    with progress() as listener:
        recording = run_cases(found, asked, emit=listener, out=out)
    left = f", {len(recording.unanswered)} without" if recording.unanswered else ""
    click.echo(visible(f"{len(recording.answers)} answers in {out}{left}"))
