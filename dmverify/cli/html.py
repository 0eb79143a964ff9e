"""``dmverify html``: a report as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.ci.documents import Timings, read_document
from dmverify.ci.html import render
from dmverify.errors import InputError
from dmverify.files import prepare_file, write_atomically


@click.command()
@click.argument("report", type=click.Path(exists=True, path_type=Path))
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="The file to write.")
def command(report: Path, to: Path | None) -> None:
    """Write REPORT (report.json, or its folder) as one HTML page that needs nothing else.

    Without --to it is written beside the report, as report.html.
    """
    beside = (report if report.is_dir() else report.parent) / "report.html"
    target = to or beside
    source = report / "report.json" if report.is_dir() else report
    if target.resolve() == source.resolve():
        raise InputError(
            f"--to {target}",
            rule="a page is written beside its report, and not over it",
            fix="name another file, such as report.html",
        )
    prepare_file(target)
    document = read_document(report)
    if isinstance(document, Timings):
        raise InputError(
            f"timings {report}",
            rule="a page shows a report",
            fix="name what 'dmverify verify --out' wrote",
        )
    write_atomically(target, render(document))
    click.echo(str(target))
