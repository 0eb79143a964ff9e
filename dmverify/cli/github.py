"""``dmverify github``: a report as annotations and a step summary of GitHub Actions."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dmverify.ci.compare import compare
from dmverify.ci.documents import Timings, read_document
from dmverify.ci.github import error_lines, summary
from dmverify.errors import InputError

SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file that GitHub shows


@click.command()
@click.argument("report", type=click.Path(exists=True, path_type=Path))
@click.option("--baseline", type=click.Path(path_type=Path), help="Older report to compare with.")
@click.option(
    "--fail-if-worse",
    "limit",
    type=click.FloatRange(0),
    default=10.0,
    help="How much worse than the baseline margins, errors and times may be, in percent.",
)
@click.pass_context
def command(ctx: click.Context, report: Path, baseline: Path | None, limit: float) -> None:
    """Print an annotation for each failure of REPORT and write the step summary.

    The summary goes to the file that GITHUB_STEP_SUMMARY names, or to stdout. The exit code is 1 if
    the report does not conform, or is worse than the baseline.
    """
    document = read_document(report)
    if isinstance(document, Timings):
        raise InputError(
            f"timings {report}",
            rule="a summary shows a report",
            fix="name report.json, which 'dmverify verify --out' wrote",
        )
    before = document if baseline is None else read_document(baseline)
    changes, notes = compare(before, document, limit=limit / 100)
    for line in error_lines(document):
        click.echo(line)
    text = summary(document, changes if baseline else (), notes)
    if os.environ.get(SUMMARY):
        with Path(os.environ[SUMMARY]).open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        click.echo(text)
    ctx.exit(0 if document.ok and not any(change.worse for change in changes) else 1)
