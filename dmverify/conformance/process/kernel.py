"""A process as a kernel under test (see ``PROTOCOL.md``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.conformance.guards import layout
from dmverify.conformance.process.child import NOTHING
from dmverify.conformance.process.inside import read_code, read_internals, room_inside
from dmverify.conformance.process.link import Link, Program, broken, require_program
from dmverify.conformance.sizes import estimate
from dmverify.conformance.tensors import HEADER, read
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import find_contract, to_table
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

DEFAULT_TIMEOUT = 60.0
LARGEST_CODE = 1 << 26  # bytes of machine code
CONDUCT = ("written", "aliased", "changed")


class ProcessKernel:
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        command: Program and arguments, as a shell would split them.
        timeout: Seconds for one answer, which may be infinite.
        environment: Variables that it gets beside those of this process.
        link: An open line, if the process is there already.
        build: Which of its builds is asked; empty for the one under test.

    Raises:
        InputError: For an empty command or a timeout that is not positive.
        KernelError: If the process cannot be started or does not greet as it should.
        HarnessError: If there is no temporary folder for inputs and outputs.
    """

    def __init__(
        self,
        command: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        environment: Mapping[str, str] = NOTHING,
        link: Link | None = None,
        build: str = "",
    ) -> None:
        require_program(command, timeout)
        self._program = Program(command, timeout, environment)
        self._link = Link(self._program) if link is None else link
        self._build = build
        self._begins = False  # whether the next question is the first about a case
        self._under: tuple[str, ...] = ()
        self._seen: list[str] = []

    @property
    def info(self) -> Provenance:
        """What the process says it is."""
        return self._link.greeting.producer

    @property
    def contract(self) -> str:
        """The contract that the process promises."""
        return self._link.greeting.contract

    @property
    def contracts(self) -> tuple[str, ...]:
        """Every contract that it serves."""
        return self._link.greeting.contracts

    @property
    def is_specification(self) -> bool:
        """Whether it says that it is the specification."""
        return self._link.greeting.specification

    def close(self) -> None:
        """Ends the process and removes its files."""
        self._link.close()

    def supports(self, case: Case) -> Support:
        """Asks the process whether it serves the case.

        Raises:
            KernelError: If the answer breaks the protocol.
        """
        if self._link.greeting.version == 1:
            answer = self._link.ask("supports", **self._question(case))
        else:
            answer = self._link.compute(
                "supports", case.inputs, lambda _, said: said, room=0, **self._question(case)
            )
        if answer.get("supported") is True:
            return Supported()
        if answer.get("supported") is False:
            return Unsupported(str(answer.get("reason", "the process gives no reason")))
        raise broken("supports", answer, "supported is true or false")

    def forward(self, case: Case) -> Forward:
        """O and LSE."""
        return Forward(**self._compute("forward", case, required=("o",), optional=("lse",)))

    def backward(self, case: Case) -> Outputs:
        """Every output.

        Raises:
            NotImplementedError: If the process has no backward pass, at all or for the case.
        """
        if not self._can("backward"):
            raise NotImplementedError("the process has no backward pass")
        required, optional = ("o", "dq", "dk", "dv"), ("lse", "delta")
        return Outputs(**self._compute("backward", case, required=required, optional=optional))

    def internals(self, case: Case) -> Internals | None:
        """What it shows of its inside; None if nothing, at all or of this case."""
        if not self._can("internals"):
            return None
        room = room_inside(case.problem)
        reading = partial(read_internals, largest=room)
        asked = self._question(case)
        return self._link.compute("internals", case.inputs, reading, room=room, **asked)

    def cubins(self) -> dict[str, bytes] | None:
        """Its machine code by name; None if it shows none."""
        if not self._can("code"):
            return None
        reading = partial(read_code, largest=LARGEST_CODE)
        return self._link.compute("code", None, reading, room=LARGEST_CODE, **self._which())

    def builds(self) -> dict[str, ProcessKernel]:
        """Other builds of the kernel by name, which run in the same process.

        Raises:
            KernelError: If the answer breaks the protocol.
        """
        if not self._can("builds"):
            return {}
        answer = self._link.ask("builds")
        names = answer.get("builds")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise broken("builds", answer, "builds are a list of names")
        return {name: self._built(name) for name in names}

    def begin(self) -> None:
        """What follows is about another case: the process forgets what it noted."""
        self._begins = True

    def conduct(self) -> dict[str, tuple[str, ...]]:
        """What it noted of the kernel since the case began, by the names of ``CONDUCT``.

        Raises:
            KernelError: If the answer breaks the protocol.
        """
        if not self._can("conduct"):
            return {}
        answer = self._link.ask("conduct", **self._which())
        noted = {name: answer.get(name, []) for name in CONDUCT}
        for texts in noted.values():
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise broken("conduct", answer, f"{', '.join(CONDUCT)} are lists of texts")
        return {name: tuple(texts) for name, texts in noted.items()}

    def lacks(self, condition: str) -> str:
        """Why it cannot answer under a condition, in words; empty if it can."""
        return self._link.greeting.lacks(condition)

    @contextmanager
    def under(self, conditions: tuple[str, ...]) -> Iterator[list[str]]:
        """Questions name these conditions while it is open; yields what the process notes."""
        self._under, self._seen = conditions, []
        try:
            yield self._seen
        finally:
            self._under = ()

    def _compute(
        self, op: str, case: Case, *, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, Any]:
        room = HEADER + estimate(case.problem).outputs

        def reading(path: Any, answer: dict[str, Any]) -> dict[str, Any]:
            self._seen += map(str, answer.get("seen", ()))
            if op == "backward" and answer.get("supported") is False:
                raise NotImplementedError(str(answer.get("reason", "the process gives no reason")))
            return read(path, largest=room, required=required, optional=optional)

        return self._link.compute(op, case.inputs, reading, room=room, **self._question(case))

    def _question(self, case: Case) -> dict[str, object]:
        question: dict[str, object] = {"contract": case.contract, "problem": _problem(case.problem)}
        if self._link.greeting.version == 1:
            return question
        layouts = {name: layout(array) for name, array in case.inputs.items()}
        question |= {"layouts": layouts, "under": list(self._under), **self._which()}
        if (contract := find_contract(case.contract)) is not None:  # to refuse is the kernel's work
            question["fields"] = to_table(contract)
        question["begins"], self._begins = self._begins, False
        return question

    def _which(self) -> dict[str, object]:
        return {"build": self._build}

    def _can(self, capability: str) -> bool:
        return capability in self._link.greeting.capabilities

    def _built(self, name: str) -> ProcessKernel:
        program = self._program
        return ProcessKernel(program.command, timeout=program.timeout, link=self._link, build=name)


def _problem(problem: Problem) -> dict[str, object]:
    named = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    return {**named, "softmax_scale": problem.scale}
