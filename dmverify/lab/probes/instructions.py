"""The recorded answers of an H200, judged by the instruction models bit for bit.

Here the hardware is under test by the specification and the other way round: what is compared are
recorded outputs of real instructions with ``dmverify.spec.hopper``. Nothing is within a bound; one
bit is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dmverify.conformance.events import Listener, RunStarted
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.pool import Pool
from dmverify.conformance.recorded import Recording
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import unknown_name
from dmverify.lab.probes.replay import (
    Replay,
    replay_arith,
    replay_blocks,
    replay_functions,
    replay_wgmma,
)

INSTRUCTIONS = "recorded-instructions"

REPLAYS: dict[str, Callable[[], Iterator[Replay]]] = {
    "wgmma": replay_wgmma,
    "functions": replay_functions,
    "arithmetic": replay_arith,
    "sweeps": replay_blocks,
}
"""Groups of recordings: the tensor core; ex2, lg2, rcp over every binade; fp32 arithmetic; blocks
of 2^20 inputs out of the exhaustive sweeps, by their hash."""


def judge_recordings(
    groups: Sequence[str] = (),
    *,
    emit: Listener,
    level: str = "smoke",
    pool: Pool | None = None,
) -> tuple[Finding, ...]:
    """One finding per form and family, instruction, or block.

    Args:
        groups: Keys of ``REPLAYS``; none means all.
        emit: Called with each event.
        level: Every level judges all of them.
        pool: Not used: this takes seconds.

    Raises:
        UnknownNameError: If there is no such group.
        RecordingError: If a recording is missing or was changed.
    """
    chosen = tuple(_known(group) for group in groups) or tuple(REPLAYS)
    work = ((group, _findings(group)) for group in chosen)
    with announced(RunStarted(INSTRUCTIONS, "", len(chosen)), emit):
        return tuple(each(work, emit))


def _findings(group: str) -> Iterator[Finding]:
    yield from (_finding(group, replay) for replay in REPLAYS[group]())


RECORDING = Recording(
    INSTRUCTIONS,
    "answers of an H200 to single instructions, as recorded",
    "the instruction models, bit for bit",
    judge_recordings,
)


def _finding(group: str, replay: Replay) -> Finding:
    wrong = replay.mismatches
    return Finding(
        check=group,
        case=group,
        verdict=Verdict.FAILS if wrong else Verdict.CONFORMS,
        margin=np.inf if wrong else 0.0,
        judged=replay.outputs,
        reason=f"{replay.name}: {wrong} of {replay.outputs} outputs differ" if wrong else "",
    )


def _known(group: str) -> str:
    if group not in REPLAYS:
        raise unknown_name("group of recorded instructions", group, REPLAYS)
    return group
