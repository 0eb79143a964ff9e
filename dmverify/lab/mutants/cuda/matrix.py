"""The kill matrix of the CUDA kernel's faults, from what the faulty kernels answered.

Judged by the same checks and public rules as the emulator's faults. A kernel that hangs or ends
with a CUDA error is rejected by ``run``, whoever looks; one whose machine code lacks a fence
or a barrier by ``fences``. A fault that is a matter of timing counts as rejected if enough of its
runs show it. The correct kernel answers the same cases; a check that rejects it there is a false
alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.conformance.runner import RUN
from dmverify.lab.mutants.answers import BITS, Answered, judge_answer
from dmverify.lab.mutants.cuda.answer_files import Reply, read_producer
from dmverify.lab.mutants.cuda.drive import (
    CONTROLS,
    control_id,
    delayed_id,
    keys_of,
    run_tasks,
    tasks_of,
)
from dmverify.lab.mutants.cuda.fault import ENOUGH, ORDER, CudaFault
from dmverify.lab.mutants.cuda.known import Key, known_of
from dmverify.lab.mutants.cuda.ordering import lacks_order
from dmverify.lab.mutants.matrix import Matrix, Row
from dmverify.lab.public_rules import PUBLIC_RULES

UNRUN = Reply("error", reason="it was not run")


@dataclass(frozen=True)
class CudaRow(Row):
    """A row, and how the faulty kernel ran.

    Attributes:
        reply: What its process said, without the numbers.
        kernel: Which kernel is wrong, or the host.
        alone: Whether the fault may end its process.
    """

    reply: Reply = UNRUN
    kernel: str = ""
    alone: bool = False

    @property
    def ended(self) -> bool:
        """Whether it hung or ended with a CUDA error, as its row says it may."""
        return RUN in self.with_bits and (self.alone or self.fault.check == RUN)

    @property
    def killed(self) -> bool:
        """Whether the check that names the fault rejects it, or it gave no answer at all."""
        seen = self.fault.check == ORDER or _often(self.reply)
        return self.ended or (super().killed and seen)

    def to_json(self) -> dict[str, Any]:
        """The emulator's row, and the verdict of the run."""
        reply = self.reply
        told = {"verdict": reply.verdict, "reason": reply.reason, "kernel": self.kernel}
        if reply.runs:
            told |= {"runs": reply.runs, "caught": reply.caught}  # type: ignore[dict-item]
        shape = super().to_json() | told
        return shape | {"by": RUN} if self.ended else shape


@dataclass(frozen=True)
class CudaMatrix(Matrix):
    """The matrix, and what ran.

    Attributes:
        producer: Kernel, source, compiler and device, as the workers saw them.
    """

    producer: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The emulator's matrix, and what ran; here false positives count the bits too."""
        shape = super().to_json()
        alarms = shape["false_positives"]
        alarms["with_bits"] = f"{alarms['alarms']} of {alarms['cases']} cases"
        return shape | {"producer": self.producer}


def _often(reply: Reply) -> bool:
    return not reply.runs or reply.caught * 100 >= ENOUGH * reply.runs


def cuda_kill_matrix(
    faults: Sequence[CudaFault],
    folder: Path,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> CudaMatrix:
    """Runs the faulty kernels and the correct one, and judges what they answered.

    Args:
        faults: Rows of the table.
        folder: Where answers are kept; those that are there are not made again.
        progress: Called with the id of each fault.
    """
    keys = keys_of(faults)
    replies = run_tasks(tasks_of(faults), folder, progress=progress)
    rows = tuple(judge_fault(fault, replies.get(fault.id, UNRUN)) for fault in faults)
    alarms = {key: _alarm(key, replies.get(control_id(key), UNRUN)) for key in keys}
    others = [(name, keys[0]) for name in CONTROLS]
    others += [(delayed_id(fault), keys_of([fault])[0]) for fault in faults if fault.late]
    for name, (case, contract) in others:
        found = _alarm((case, contract), replies.get(name, UNRUN))
        alarms[(f"{case} {name}", contract)] = found
    known = [known_of(*key) for key in keys]
    unused = {
        name: sum(one.rules_accept[name] != rule.judges.keys() for one in known)
        for name, rule in PUBLIC_RULES.items()
    }
    return CudaMatrix(rows, alarms, unused, read_producer(folder))


def judge_fault(fault: CudaFault, reply: Reply) -> CudaRow:
    """One row of the matrix."""
    judged = _judged([(case, fault.contract) for case in fault.cases], reply)
    static = (ORDER,) if fault.check == ORDER and lacks_order(fault) else ()
    ends = (RUN,) if reply.verdict in ("crash", "timeout") else ()
    seen = judged if _often(reply) else [_unseen(one) for one in judged]
    return CudaRow(
        fault=fault.row(),
        with_bits=(*static, *ends, *_union([a.with_bits for a in seen])),
        without_bits=(*static, *ends, *_union([a.without_bits for a in seen])),
        margin=max((a.margin for a in judged), default=np.inf),
        error=max((a.error for a in judged), default=np.inf),
        rules={name: bool(ends) or any(a.rules[name] for a in seen) for name in PUBLIC_RULES},
        reply=replace(reply, answers=()),
        kernel=fault.kernel,
        alone=fault.alone,
    )


def _judged(keys: Sequence[Key], reply: Reply) -> list[Answered]:
    return [
        judge_answer(known_of(*key), Forward(o, lse), outputs)
        for key, ((o, lse), outputs) in zip(keys, reply.answers, strict=False)
    ]


def _unseen(one: Answered) -> Answered:
    """What shows too seldom to count."""
    return replace(one, with_bits=(), without_bits=(), rules=dict.fromkeys(one.rules, False))


def _union(ids: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in ids for name in some))


def _alarm(key: Key, reply: Reply) -> tuple[str, ...]:
    """The checks that reject the correct kernel, its bits included; no answer is an alarm too."""
    if reply.verdict != "answered":
        return (f"{RUN} ({reply.verdict}: {reply.reason})",)
    moved = (BITS.id,) if reply.caught else ()
    return _union([moved, *(one.with_bits for one in _judged([key], reply))])
