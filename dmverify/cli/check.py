"""``dmverify check``: the third of three steps, judging a recording."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.output import console, json_option, print_json, progress


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--check", "checks", multiple=True, help="Check to run instead of all; repeatable.")
@json_option
@click.pass_context
def command(ctx: click.Context, recording: Path, checks: tuple[str, ...], as_json: bool) -> None:
    """Judge RECORDING, a directory that 'dmverify run' wrote. Needs no GPU.

    Exit code 0: conforms; 1: does not; 2: wrong usage; 3: a broken recording.
    """
    from dmverify.conformance.checks import CHECKS, get_check
    from dmverify.conformance.recordings import judge_recording
    from dmverify.conformance.report.console import show
    from dmverify.conformance.report.report import Report, Subject
    from dmverify.conformance.store import load

    loaded = load(recording)
    rows = [get_check(name) for name in checks] or list(CHECKS.values())
    with progress() as listener:
        findings = judge_recording(loaded, checks=rows, emit=listener)
    contracts = ", ".join(dict.fromkeys(answer.contract for answer in loaded.answers))
    subject = Subject(loaded.producer.kernel, contracts, "recorded outputs", findings)
    report = Report((subject,), "check", 0)
    if as_json:
        print_json(report.to_json())
    else:
        show(report, console())
    ctx.exit(report.exit_code)
