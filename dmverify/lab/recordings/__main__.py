"""The recording from a command line: see ``replayed`` and ``power``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dmverify.conformance.events import CaseDone, Event, RunStarted
from dmverify.conformance.verdict import Verdict
from dmverify.lab.recordings.digests import Digests, load_digests
from dmverify.lab.recordings.plan import PARTS, Key
from dmverify.lab.recordings.power import EDITS, Edit, noticed, read_edits, shuffled
from dmverify.lab.recordings.replayed import (
    chosen,
    first_difference,
    replay_recorded,
    unrecorded,
)
from dmverify.lab.recordings.shipped import DATA, DIGESTS

EVERY = 100  # cases between two lines of progress


def main(words: Sequence[str] | None = None) -> int:
    """Replays, or lists what is unrecorded; the exit code is 1 if a hash differs."""
    parser = argparse.ArgumentParser(prog="python -m dmverify.lab.recordings")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the recording")
    verbs = parser.add_subparsers(dest="verb", required=True)
    again = verbs.add_parser("replay", help="compute what was recorded, compare hashes")
    again.add_argument("--parts", default="", help=f"comma between names of {', '.join(PARTS)}")
    again.add_argument("--run", type=int, help="a run number: also the tenth that it chooses")
    again.add_argument("-j", type=int, default=1, metavar="N", help="processes side by side")
    again.add_argument("--large", action="store_true", help="pairs of very many heads too")
    again.add_argument("--first", action="store_true", help="stop at the first that differs")
    power = verbs.add_parser("power", help="try edits of the specification")
    power.add_argument("edits", type=Path, nargs="?", default=EDITS, help="JSON list of edits")
    power.add_argument("--parts", default="core,smoke", help="what has to notice them")
    verbs.add_parser("unrecorded", help="list what the plan asks and the recording has not")
    given = parser.parse_args(words)
    if given.verb == "unrecorded":
        return _list(given.data)
    parts = tuple(filter(None, given.parts.split(",")))
    if given.verb == "power":
        return _try(given.data, parts, read_edits(given.edits))
    digests = load_digests(given.data / DIGESTS)
    keys = chosen(digests, parts, given.run, large=given.large)
    if given.first:
        return _first(digests, keys)
    return _replay(digests, keys, given.j)


def _first(digests: Digests, keys: Sequence[Key]) -> int:
    found = first_difference(digests, shuffled(keys))
    if found is not None:
        _say(f"{found.case} {found.reason}")
    return 0 if found is None and keys else 1


def _try(folder: Path, parts: Sequence[str], edits: Sequence[Edit]) -> int:
    missed = 0
    for edit in edits:
        said = noticed(edit, data=folder, parts=parts)
        right = bool(said) != bool(edit.equivalent)
        missed += not right
        _say(f"{edit.name}: {'' if right else 'NOT AS DUE: '}{said or 'not noticed'}")
    _say(f"{len(edits) - missed} of {len(edits)} edits as due")
    return 1 if missed or not edits else 0


def _replay(digests: Digests, keys: Sequence[Key], processes: int) -> int:
    findings = replay_recorded(digests, keys, processes=processes, emit=_Lines())
    wrong = [finding for finding in findings if finding.verdict is not Verdict.CONFORMS]
    for finding in wrong:
        _say(f"{finding.case} {finding.reason}")
    values = sum(finding.judged for finding in findings)
    _say(f"{len(findings) - len(wrong)} of {len(findings)} pairs agree, {values:,} values")
    return 1 if wrong or not findings else 0


def _list(folder: Path) -> int:
    found = unrecorded(folder)
    for (case_id, contract), why in found.items():
        _say(f"{case_id} {contract} {why or 'not asked'}")
    _say(f"{len(found)} unrecorded, {sum(not why for why in found.values())} of them not asked")
    return 0


class _Lines:
    """A line on stderr after so many cases."""

    def __init__(self) -> None:
        self._cases: int | None = None
        self._done = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._cases = event.cases
        elif isinstance(event, CaseDone):
            self._done += 1
            if self._done % EVERY == 0:
                sys.stderr.write(f"{self._done} of {self._cases}\n")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
