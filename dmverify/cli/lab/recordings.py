"""What an H200 answered: computed anew, and held against edits of the specification."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FILE, FOLDER, say
from dmverify.conformance.events import CaseDone, Event, RunStarted
from dmverify.conformance.verdict import Verdict
from dmverify.lab.recordings.digests import load_digests
from dmverify.lab.recordings.edits import EDITS, noticed, read_edits, shuffled
from dmverify.lab.recordings.plan import PARTS
from dmverify.lab.recordings.replayed import chosen, first_difference, replay_recorded
from dmverify.lab.recordings.shipped import DATA, DIGESTS

EVERY = 100  # cases between two lines of progress

data_option = click.option("--data", type=FOLDER, default=DATA, help="Folder of the recording.")


def _names(ctx: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


@click.command()
@data_option
@click.option("--parts", default="", callback=_names, help=f"With commas: {', '.join(PARTS)}.")
@click.option(
    "--run", type=int, help="Number of a run; it adds the tenth of the rest that it chooses."
)
@click.option("-j", "processes", type=click.IntRange(1), default=1, help="Number of processes.")
@click.option("--first", is_flag=True, help="Stop at the first pair that differs.")
@click.pass_context
def replay(ctx: click.Context, /, data: Path, processes: int, first: bool, **asked: object) -> None:
    """Compute what was recorded, compare hashes; exit code 1 if one differs, or none was asked."""
    digests = load_digests(data / DIGESTS)
    keys = chosen(digests, **asked)  # type: ignore[arg-type]
    if first:
        found = first_difference(digests, shuffled(keys))
        if found is not None:
            click.echo(f"{found.case} {found.reason}")
        ctx.exit(0 if found is None and keys else 1)
    findings = replay_recorded(digests, keys, processes=processes, emit=_Lines())
    wrong = [finding for finding in findings if finding.verdict is not Verdict.CONFORMS]
    for finding in wrong:
        click.echo(f"{finding.case} {finding.reason}")
    values = sum(finding.judged for finding in findings)
    click.echo(f"{len(findings) - len(wrong)} of {len(findings)} pairs agree, {values:,} values")
    ctx.exit(1 if wrong or not findings else 0)


@click.command()
@data_option
@click.argument("listed", metavar="[LIST]", type=FILE, default=EDITS)
@click.option("--parts", default="core,smoke", callback=_names, help="What has to notice them.")
@click.pass_context
def edits(ctx: click.Context, data: Path, listed: Path, parts: tuple[str, ...]) -> None:
    """Try edits of the specification; exit code 1 unless each is noticed, or is silent as due."""
    asked = read_edits(listed)
    missed = 0
    for edit in asked:
        said = noticed(edit, data=data, parts=parts)
        right = bool(said) != bool(edit.equivalent)
        missed += not right
        click.echo(f"{edit.name}: {'' if right else 'NOT AS DUE: '}{said or 'not noticed'}")
    click.echo(f"{len(asked) - missed} of {len(asked)} edits as due")
    ctx.exit(1 if missed or not asked else 0)


class _Lines:
    """A line of progress after so many cases."""

    def __init__(self) -> None:
        self._cases: int | None = None
        self._done = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._cases = event.cases
        elif isinstance(event, CaseDone):
            self._done += 1
            if self._done % EVERY == 0:
                say(f"{self._done} of {self._cases}")
