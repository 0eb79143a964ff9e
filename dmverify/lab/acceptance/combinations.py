"""Stage ``combinations``: every combination of the plan is recorded, and replayed bit for bit.

The kernel under test runs each case twice, with poisoned buffers and a stripe size of the plan, and
as a user would run it; answers that differ from each other are none. What it answers is recorded by
hash (``recordings.make``) and judged like the recording that ships (``recordings.replayed``). A run
that is cut goes on from its journal, and what is recorded of the same source is not asked again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dmverify.conformance.adapter import Forward, Kernel, Support
from dmverify.conformance.events import CaseDone, Event
from dmverify.conformance.kernels.bundled import Bundled
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place
from dmverify.conformance.store import FOOTER
from dmverify.conformance.verdict import Verdict
from dmverify.errors import KernelError
from dmverify.lab.acceptance.plan import TAILS, combinations
from dmverify.lab.acceptance.poison import poisoned
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.digests import Digests, digest_of, load_digests
from dmverify.lab.recordings.make import record, record_tails
from dmverify.lab.recordings.replayed import replay_recorded
from dmverify.lab.recordings.shipped import ANSWERS, DIGESTS
from dmverify.spec.case import Case, Outputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Key, Provenance


class CutError(Exception):
    """The session's time is used up."""


class Twice:
    """The bundled kernel, each case in two ways; see ``dmverify.conformance.adapter.Kernel``."""

    contract = "bundled"

    def __init__(self) -> None:
        self._kernel = Bundled()
        self._units = {(one.case, one.contract): one.units for one in combinations()}

    @property
    def info(self) -> Provenance:
        """What the kernel says it is."""
        return self._kernel.info

    def count(self, contract: str, problem: Problem) -> None:
        """Counts the builds that serve such a case among those that have run."""
        self._kernel.count(contract, problem)

    def supports(self, case: Case) -> Support:
        """Serves what the kernel serves."""
        return self._kernel.supports(case)

    def forward(self, case: Case) -> Forward:
        """O and LSE; see ``backward``."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """Every output.

        Raises:
            KernelError: If the two ways give other bits.
        """
        tensors, options = place(case), options_of(case, Choices())
        with poisoned():
            first = launch(tensors, options, units=self._units[case.id, case.contract]).outputs()
        if digest_of(first) != digest_of(launch(tensors, options).outputs()):
            raise KernelError(
                f"{case.id} under {case.contract}, run twice",
                rule="neither unwritten memory nor the size of a stripe changes an answer",
                fix="look for a read of what was not written, and at the order of stripes",
            )
        return first


def run(session: Session) -> dict[str, Any]:
    """Records what is not recorded yet, and judges all of it."""
    asked = [(one.case, one.contract) for one in combinations()]
    return record_and_judge(session, Twice(), asked)


def record_and_judge(session: Session, kernel: Kernel, asked: Sequence[Key]) -> dict[str, Any]:
    """A recording of a kernel in the session's folder, and what its replay says.

    Raises:
        CutError: If the time is over; what was answered is kept.
        KernelError: If the kernel has no answer to one.
    """

    def watch(event: Event) -> None:
        if isinstance(event, CaseDone) and session.over:
            raise CutError

    digests = _recorded(session, kernel)
    if digests is None:
        digests = record(kernel, session.folder, asked=asked, emit=watch)
    cores = max(1, (os.cpu_count() or 2) - 1)
    found = replay_recorded(digests, tuple(digests.cases), processes=cores, emit=watch)
    wrong = [(one.case, one.reason) for one in found if one.verdict is not Verdict.CONFORMS]
    return {
        "ok": not wrong and len(found) == len(asked),
        "planned": len(asked),
        "run": len(found),
        "equal": len(found) - len(wrong),
        "values": sum(one.judged for one in found),
        "wrong": wrong,
        "producer": asdict(digests.producer),
    }


def _recorded(session: Session, kernel: Kernel) -> Digests | None:
    """What an earlier run recorded of the same source; that of another one is removed."""
    if not (session.folder / DIGESTS / FOOTER).exists():
        return None
    found = load_digests(session.folder / DIGESTS)
    if found.producer.source == kernel.info.source:
        return found
    for name in (DIGESTS, ANSWERS):
        shutil.rmtree(session.folder / name, ignore_errors=True)
    return None


def record_long(session: Session) -> dict[str, Any]:
    """Stage ``tails``: runs the long cases and saves their last queries."""
    record_tails(Bundled(), session.folder, long=TAILS)
    return {"ok": True, "cases": len(TAILS)}
