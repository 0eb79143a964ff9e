"""Replays a recording on a CPU: what the specification computes has to have the recorded hashes.

    dmverify lab replay                          # everything
    dmverify lab replay --parts smoke,core --run 1234
    dmverify list unrecorded

With a run number the tenth of full and random that it chooses is replayed too, so that ten runs in
a row replay all of them. Cases of a level that the recording does not answer are *unrecorded*: the
level has changed since, or the kernel does not serve them, and then the recording says why.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from dmverify.conformance.events import Listener, RunStarted, ignore
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.pool import Pool, in_order
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.lab.recordings.digests import Digests, load_digests
from dmverify.lab.recordings.plan import Key, is_added, plan, tenth
from dmverify.lab.recordings.shipped import DATA, DIGESTS, RECORDED, judge_digests

LOOKS_AHEAD = 500  # pairs a process: what travels is an id and some hashes
LATER = "added after the recording, and not asked on a card since"
BY_TURNS = ("full", "random")
"""Parts of which a run number chooses a tenth."""


def chosen(digests: Digests, parts: Sequence[str] = (), run: int | None = None) -> tuple[Key, ...]:
    """The recorded pairs of some parts of the plan, and of the tenth of a run; all without either.

    Args:
        digests: The recording.
        parts: Names of parts.
        run: A run number.
    """
    if not parts and run is None:
        return tuple(digests.cases)
    asked = dict.fromkeys(plan(parts))
    if run is not None:
        asked |= dict.fromkeys(tenth(plan(BY_TURNS), run))
    return tuple(key for key in digests.cases if key in asked)


def replay_recorded(
    digests: Digests, keys: Collection[Key], *, processes: int = 1, emit: Listener = ignore
) -> tuple[Finding, ...]:
    """One finding for each pair.

    Args:
        digests: The recording.
        keys: Recorded pairs.
        processes: How many work side by side.
        emit: Called with each event.

    Raises:
        InputError: For less than one process.
    """
    calls = ((key[0], partial(judge_digests, key, digests.of(key))) for key in keys)
    with (
        announced(RunStarted(RECORDED, "bundled", len(keys)), emit),
        nullcontext() if processes == 1 else Pool(processes) as pool,
    ):
        found = in_order(calls, pool, ahead=LOOKS_AHEAD)
        return tuple(each(((one.case, [one]) for one in found), emit))


def first_difference(digests: Digests, keys: Collection[Key]) -> Finding | None:
    """The first finding that is not as recorded; nothing after it is computed."""
    found = (judge_digests(key, digests) for key in keys)
    return next((one for one in found if one.verdict is not Verdict.CONFORMS), None)


def unrecorded(folder: Path = DATA) -> dict[Key, str]:
    """The pairs of the plan without an answer, with the reason if there is one."""
    digests = load_digests(folder / DIGESTS)
    missing = (key for key in plan() if key not in digests.cases)
    return {key: digests.unserved.get(key, LATER if is_added(key) else "") for key in missing}
