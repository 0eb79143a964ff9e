"""``dmverify check``: the third of three steps, judging a recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dmverify.cli.inputs import Files, inputs_options
from dmverify.cli.output import (
    console,
    error_option,
    json_option,
    print_json,
    progress,
    served_option,
)
from dmverify.cli.pipes import reader_may_leave
from dmverify.cli.records import as_record
from dmverify.conformance.accuracy import read_limits
from dmverify.conformance.checks import choose_checks
from dmverify.conformance.expectations import apply_expectations, read_expectations
from dmverify.conformance.load import load
from dmverify.conformance.questions import read_asked
from dmverify.conformance.recorded_answers import judge_recording
from dmverify.conformance.report.console import show
from dmverify.conformance.report.repeat import by_check
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.tensor_files import name_cases
from dmverify.conformance.three_steps import compare_versions, only, unanswered
from dmverify.files import prepare_folder


@dataclass(frozen=True)
class Options:
    """What is judged, by what, and where the report goes."""

    recording: Path
    checks: tuple[str, ...]
    expect: Path | None
    cases: tuple[str, ...]
    listed: Path | None
    min_served: float
    max_error: tuple[str, ...]
    out: Path | None
    as_json: bool


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--check", "checks", multiple=True, help="Check to run instead of all; repeatable.")
@click.option(
    "--expect", type=click.Path(path_type=Path), help="File of expected verdicts, with reasons."
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    help="Judge only this case id; repeatable.",
)
@click.option(
    "--cases",
    "listed",
    type=click.Path(path_type=Path),
    help="List of the cases that were to be run, from 'dmverify gen'.",
)
@inputs_options
@served_option
@error_option
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write reports to."
)
@json_option
@click.pass_context
@as_record(Options)
def command(ctx: click.Context, inputs: Files, options: Options) -> None:
    """Judge RECORDING, a directory that 'dmverify run' wrote. Needs no GPU.

    A recording says itself what it was asked; what it has no answer to is shown. With --cases it is
    held to a list from 'dmverify gen', and with --case to some cases of it. Cases of files need
    --inputs, as they did when they were run.

    Exit code 0: conforms; 1: fails; 2: wrong usage; 3: a broken recording, or a kernel that
    broke; 4: a case had no answer in time; 5: nothing ran; 6: every answer is open.
    """
    if options.listed and options.cases:
        raise click.UsageError("name a list with --cases, or cases with --case")
    name_cases((), inputs.sources())
    due = read_asked(options.listed) if options.listed else ()
    limits = read_limits(options.max_error)
    if options.out is not None:
        prepare_folder(options.out)
    expected = read_expectations(options.expect) if options.expect is not None else ()
    loaded = load(options.recording)
    warnings = compare_versions(loaded)
    loaded = only(loaded, options.cases) if options.cases else loaded
    rows = choose_checks(options.checks)
    with progress() as listener:
        findings = judge_recording(loaded, checks=rows, emit=listener)
    contracts = tuple(dict.fromkeys(question.contract for question in loaded.asked))
    findings = (*findings, *unanswered(loaded, due=due))
    producer = loaded.producer
    repeat = by_check(options.recording, expect=options.expect)
    subject = Subject(
        producer.kernel,
        ", ".join(contracts),
        "recorded outputs",
        findings,
        producer,
        repeat,
        contracts=contracts,
    )
    report = Report(
        (subject,),
        "check",
        0,
        warnings=warnings,
        min_served=options.min_served,
        max_error=limits,
    )
    if options.expect is not None:
        report = apply_expectations(report, expected)
    with reader_may_leave():
        if options.as_json:
            print_json(report.to_json())
        else:
            show(report, console())
    if options.out is not None:
        report.write(options.out)
    ctx.exit(report.exit_code)
