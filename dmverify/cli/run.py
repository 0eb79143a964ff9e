"""``dmverify run``: the second of three steps, a kernel's outputs, unjudged."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.inputs import inputs_options, sources
from dmverify.cli.output import in_process_option, progress, timeout_option
from dmverify.conformance.questions import list_asked, read_asked
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.tensor_files import name_cases
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
@inputs_options
def command(
    kernel: str,
    out: Path,
    listed: Path | None,
    cases: tuple[str, ...],
    timeout: float | None,
    in_process: bool,
    contract: str | None,
    files: tuple[str, ...],
    causal: bool | None,
    softmax_scale: float | None,
) -> None:
    """Run KERNEL on cases and write a recording to the directory OUT.

    The same command on the directory of an interrupted run goes on where that stopped.
    """
    if not (listed or cases or files):
        raise click.UsageError("name cases with --cases FILE, --case ID or --inputs FILE")
    ids, _ = name_cases(cases, sources(files, causal, softmax_scale))
    asked = read_asked(listed) if listed else ()
    found = resolve_kernel(kernel, timeout=timeout, in_process=in_process)
    if cases or not listed:
        asked += list_asked(contract=contract or found.contract, cases=ids)
    with progress() as listener:
        recording = run_cases(found, asked, emit=listener, out=out)
    left = f", {len(recording.unanswered)} without" if recording.unanswered else ""
    click.echo(visible(f"{len(recording.answers)} answers in {out}{left}"))
