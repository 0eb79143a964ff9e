"""Mutants of the CUDA kernel: run in processes of their own, their answers judged here.

Judged by the same checks and public rules as the emulator's. One that hangs or ends with a CUDA
error is rejected by ``run``, whoever looks; one whose machine code lacks a fence or a barrier by
``fences``. One that is a matter of timing counts as rejected if enough of its runs show it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmverify.conformance.adapter import Forward
from dmverify.conformance.runner import RUN
from dmverify.lab.mutants.answers import BITS, WITHOUT_BITS, Answered, judge_answer, known_of
from dmverify.lab.mutants.catalogue import Key, Mutant
from dmverify.lab.mutants.cuda.answer_files import Reply, read_producer
from dmverify.lab.mutants.cuda.drive import (
    CONTROLS,
    control_id,
    delayed_id,
    keys_of,
    run_tasks,
    tasks_of,
)
from dmverify.lab.mutants.cuda.mutation import ENOUGH, ORDER
from dmverify.lab.mutants.cuda.ordering import lacks_order
from dmverify.lab.mutants.cuda.table import MUTATIONS
from dmverify.lab.mutants.matrix import Progress, Row, Run, row_of, union

UNRUN = Reply("error", reason="it was not run")


class CudaMutants:
    """See ``dmverify.lab.mutants.matrix.BackEnd``.

    The correct kernel answers the same cases, once each, and with the delays of the mutants: a
    check that rejects it there, bits included, is a false positive.

    Args:
        folder: Where answers are kept; those that are there are not made again.
    """

    name, by_bits, checks = "bundled", True, len(WITHOUT_BITS)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replies: dict[str, Reply] = {}

    @property
    def made(self) -> Collection[str]:
        """Ids of the mutants."""
        return MUTATIONS.keys()

    def keys(self, mutant: Mutant) -> tuple[Key, ...]:
        """The catalogue's: the CUDA kernel promises its contract."""
        return mutant.keys

    @property
    def provenance(self) -> dict[str, Any]:
        """Kernel, source, compiler and device, as the workers saw them."""
        return read_producer(self._folder)

    def rows(self, mutants: Sequence[Mutant], progress: Progress) -> Iterator[Row]:
        """Runs what has no answer yet, the correct kernel too, and judges every answer."""
        self._replies = run_tasks(tasks_of(mutants), self._folder, progress=progress)
        for mutant in mutants:
            yield row_of_reply(mutant, self._reply(mutant.id))

    def alarms(
        self, mutants: Sequence[Mutant], seeds: int, progress: Progress
    ) -> dict[Key, tuple[str, ...]]:
        """The cases as they are: other seeds would be other questions to the card."""
        keys = keys_of(mutants)
        found = {key: _alarm(key, self._reply(control_id(key))) for key in keys}
        others = [(name, keys[0]) for name in CONTROLS]
        others += [(delayed_id(m), m.keys[0]) for m in mutants if MUTATIONS[m.id].late]
        for name, (case, contract) in others:
            key = f"{case} {name}", contract
            found[key] = _alarm((case, contract), self._reply(name))
        return found

    def _reply(self, name: str) -> Reply:
        return self._replies.get(name, UNRUN)


def row_of_reply(mutant: Mutant, reply: Reply) -> Row:
    """One row of the matrix."""
    mutation = MUTATIONS[mutant.id]
    static = (ORDER,) if mutant.check == ORDER and lacks_order(mutant) else ()
    ends = (RUN,) if reply.verdict in ("crash", "timeout") else ()
    told: dict[str, Any] = {
        "verdict": reply.verdict,
        "reason": reply.reason,
        "kernel": mutation.place,
    }
    if reply.runs:
        told |= {"runs": reply.runs, "caught": reply.caught}
    ended = bool(ends) and (mutation.alone or mutant.check == RUN)
    judged = _judged(mutant.keys, reply)
    often = not reply.runs or reply.caught * 100 >= ENOUGH * reply.runs
    seen = judged if often else [_unseen(one) for one in judged]
    return row_of(mutant, mutant.check_outside, seen, Run((*static, *ends), ended, told))


def _judged(keys: Sequence[Key], reply: Reply) -> list[Answered]:
    return [
        judge_answer(known_of(*key), Forward(o, lse), outputs)
        for key, ((o, lse), outputs) in zip(keys, reply.answers, strict=False)
    ]


def _unseen(one: Answered) -> Answered:
    """What shows too seldom to count."""
    return replace(one, with_bits=(), without_bits=(), rules=dict.fromkeys(one.rules, False))


def _alarm(key: Key, reply: Reply) -> tuple[str, ...]:
    """The checks that reject the correct kernel, its bits included; no answer is an alarm too."""
    if reply.verdict != "answered":
        return (f"{RUN} ({reply.verdict}: {reply.reason})",)
    moved = (BITS.id,) if reply.caught else ()
    return union([moved, *(one.with_bits for one in _judged([key], reply))])
