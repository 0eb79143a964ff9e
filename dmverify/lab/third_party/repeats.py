"""What repeated calls of a peer differ in: the same call, on another stream, in another batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.families import generate
from dmverify.conformance.session import Session
from dmverify.errors import DmverifyError
from dmverify.lab.third_party.questions import repeated_of
from dmverify.spec.case import F32, Case, Inputs, Outputs

REPEATS = ".repeats.json"  # how the names of files of rows end
RUNS = 20
ON_STREAM = 10

Answers = tuple[Outputs, list[Outputs]]
"""One answer, and those that should be it again."""


def repeats(kernel: Kernel, name: str) -> Iterator[dict[str, Any]]:
    """One row an output, mask and way of calling again; what went wrong instead, if something did.

    Args:
        kernel: A peer, here or in a process of its own.
        name: Name of the peer.
    """
    for case_id in repeated_of(name):
        case = generate(case_id, contract=kernel.contract)
        for way, vary in VARIED.items():
            if way == "batch" and case.problem.causal:
                continue
            about = {"case": case_id, "varied": way}
            try:
                rows = list(differences(*vary(kernel, case)))
            except DmverifyError as error:  # a session makes one of whatever a kernel raises
                yield {**about, "error": str(error)}
                continue
            yield from ({**about, **row} for row in rows)


def _same_stream(kernel: Kernel, case: Case) -> Answers:
    session = Session(kernel, case)
    return session.backward(), [session.backward() for _ in range(RUNS)]


def _other_stream(kernel: Kernel, case: Case) -> Answers:
    session = Session(kernel, case)
    first = session.backward()
    if session.lacks("stream"):
        return first, []
    with session.under(("stream",)):
        return first, [session.backward() for _ in range(ON_STREAM)]


def _other_batch(kernel: Kernel, case: Case) -> Answers:
    """The call beside its mirror image, which has the same scales since nothing is masked."""
    two = replace(case, problem=replace(case.problem, batch=2), inputs=_beside(case.inputs))
    session = Session(kernel, case)
    beside = {name: x[:1] for name, x in session.backward(two).items()}
    return session.backward(), [Outputs(**beside)]


def _beside(inputs: Inputs) -> Inputs:
    return Inputs(**{name: np.concatenate([x, x[:, ::-1]]) for name, x in inputs.items()})


def differences(first: Outputs, runs: Sequence[Outputs]) -> Iterator[dict[str, Any]]:
    """One row an output: in how many runs it differed, in how many elements, by how much."""
    for name, due in first.items():
        found = [getattr(run, name) for run in runs]
        changed = [int((_bits(x) != _bits(due)).sum()) for x in found]
        yield {
            "output": name,
            "runs": len(runs),
            "runs_that_differ": sum(count > 0 for count in changed),
            "elements": due.size,
            "most_elements": max(changed, default=0),
            "largest_difference": max((float(np.abs(x - due).max()) for x in found), default=0.0),
            "largest_value": float(np.abs(due).max()),
        }


def _bits(x: F32) -> np.typing.NDArray[np.uint32]:
    """Bits as whole numbers, so that a NaN equals itself and -0 is not 0."""
    return np.ascontiguousarray(x).view(np.uint32)


VARIED: dict[str, Callable[[Kernel, Case], Answers]] = {
    "run": _same_stream,
    "stream": _other_stream,
    "batch": _other_batch,
}
