"""Serves a Python kernel over the protocol, so that it runs apart: ``python -m ... NAME``.

The command line runs every kernel but the project's own so: a kernel that crashes, hangs, ends its
process, or alters what this program consists of then meets a judge that it does not share. What it
prints goes to stderr; its stdin is empty.

The kernel is asked through a ``Session``, as one in the judge's process is, and the conditions of
``kernels.surroundings`` are opened here: what is noted of its conduct travels with the answers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dmverify.conformance.adapter import (
    Dumps,
    Kernel,
    ShowsBuilds,
    ShowsCode,
    contracts_of,
    describe,
    require_unnamed,
)
from dmverify.conformance.guards import laid_out
from dmverify.conformance.kernels.surroundings import CONDITIONS, lacks
from dmverify.conformance.process.greeting import PROTOCOL, VERSION
from dmverify.conformance.process.inside import write_code, write_internals, write_tensors
from dmverify.conformance.resolve import load_kernel
from dmverify.conformance.session import Session
from dmverify.conformance.sizes import estimate
from dmverify.conformance.tensors import HEADER, read
from dmverify.conformance.words import describe_error, printable
from dmverify.errors import DmverifyError
from dmverify.spec.case import OPERANDS, SCALE, Case, Inputs
from dmverify.spec.problem import Problem

Request = dict[str, Any]
Answer = dict[str, object]


@dataclass
class Served:
    """A kernel, its builds, and what was noted of each since the case began.

    Attributes:
        name: How it is found.
        kernels: The kernel under the empty name, other builds under theirs.
        sessions: By the same names.
    """

    name: str
    kernels: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)

    def hello(self, request: Request) -> Answer:
        """Loads the kernel, and says what it is."""
        kernel = require_unnamed(load_kernel(self.name), self.name)
        self.kernels[""] = kernel
        return {
            "protocol": PROTOCOL,
            "version": VERSION,
            "contract": kernel.contract,
            "contracts": contracts_of(kernel),
            "producer": asdict(describe(kernel)),
            "capabilities": _capabilities(kernel),
            "conditions": _conditions(),
            "specification": bool(getattr(kernel, "is_specification", False)),
        }

    def supports(self, request: Request) -> Answer:
        """Whether it serves the case."""
        case = _case(request)
        declined = self._session(request, case).supports(case)
        return {"supported": True} if declined is None else _declined(declined.reason)

    def forward(self, request: Request) -> Answer:
        """O and LSE."""
        case = _case(request)
        session = self._session(request, case)
        with session.under(request["under"]) as seen:
            found = session.forward(case)
        write_tensors(request["outputs"], dict(found.items()))
        return {"seen": list(dict.fromkeys(seen))}

    def backward(self, request: Request) -> Answer:
        """Every output."""
        case = _case(request)
        session = self._session(request, case)
        with session.under(request["under"]) as seen:
            found = session.backward(case)
        if session.lacks_gradients:
            return _declined(session.lacks_gradients)
        write_tensors(request["outputs"], dict(found.items()))
        return {"seen": list(dict.fromkeys(seen))}

    def internals(self, request: Request) -> Answer:
        """The numbers inside."""
        case = _case(request)
        found = self._session(request, case).internals(case)
        return {"shown": False} if found is None else write_internals(request["outputs"], found)

    def conduct(self, request: Request) -> Answer:
        """What was noted."""
        session = self.sessions.get(request["build"])
        return {} if session is None else asdict(session.side_effects())

    def code(self, request: Request) -> Answer:
        """Machine code."""
        write_code(request["outputs"], self.kernels[request["build"]].cubins())
        return {}

    def builds(self, request: Request) -> Answer:
        """The names of other builds."""
        made = self.kernels[""].builds()
        self.kernels |= made
        return {"builds": list(made)}

    def _session(self, request: Request, case: Case) -> Session:
        build = request["build"]
        if build not in self.kernels:
            self.builds(request)  # this process is new, and was not asked for them yet
        if request["begins"] or build not in self.sessions:
            self.sessions[build] = Session(self.kernels[build], case)
        return self.sessions[build]


OPS: dict[str, Callable[[Served, Request], Answer]] = {
    op.__name__: op
    for op in (
        Served.hello,
        Served.supports,
        Served.forward,
        Served.backward,
        Served.internals,
        Served.conduct,
        Served.code,
        Served.builds,
    )
}


def main(name: str) -> None:
    """Answers questions on stdin until ``bye`` or the end of input."""
    questions, answers = _own_streams()
    served = Served(name)
    for line in questions:
        request = json.loads(line)
        if request["op"] == "bye":
            return
        try:
            answer = {"ok": True, **OPS[request["op"]](served, request)}
        except BaseException as error:  # the kernel's: nobody presses Ctrl-C in this process
            answer = {"ok": False, **_refusal(error)}
        answers.write(json.dumps({"id": request["id"], **answer}).encode() + b"\n")
        answers.flush()


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keeps stdin and stdout for the protocol; prints, of libraries too, go to stderr."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return questions, answers


def _capabilities(kernel: Kernel) -> list[str]:
    shown = {"internals": Dumps, "code": ShowsCode, "builds": ShowsBuilds}
    more = [name for name, kind in shown.items() if isinstance(kernel, kind)]
    return ["forward", "backward", "delta", "conduct", *more]


def _conditions() -> dict[str, str]:
    return {name: lacks(name) for name in CONDITIONS}


def _declined(reason: str) -> Answer:
    return {"supported": False, "reason": reason}


def _refusal(error: BaseException) -> Answer:
    if isinstance(error, DmverifyError):
        return {
            "kind": error.code,
            "error": printable(str(error.value)),
            "rule": error.rule,
            "fix": error.fix,
        }
    return {"error": describe_error(error)}


def _case(request: Request) -> Case:
    problem = Problem(**request["problem"])
    largest = HEADER + 2 * estimate(problem).inputs  # a scale is not larger than its tensor
    optional = tuple(f"{name}{SCALE}" for name in OPERANDS)
    given = read(Path(request["inputs"]), largest=largest, required=OPERANDS, optional=optional)
    scales = {name: given.pop(f"{name}{SCALE}") for name in OPERANDS if f"{name}{SCALE}" in given}
    laid = {name: laid_out(array, **request["layouts"][name]) for name, array in given.items()}
    inputs = Inputs(**laid, scales=scales)
    return Case(f"question/{request['id']}@0", request["contract"], problem, inputs)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the judge has gone
        main(sys.argv[1])
