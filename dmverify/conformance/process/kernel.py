"""A process as a kernel under test (see ``PROTOCOL.md``).

Whatever the process does becomes an error of ``dmverify.errors``, which the runner turns into a
verdict; the next question then goes to a new process.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.conformance.process.child import Child
from dmverify.conformance.sizes import estimate
from dmverify.conformance.store import Sealed, seal, seal_of
from dmverify.conformance.tensors import HEADER, encode, read
from dmverify.conformance.words import printable
from dmverify.errors import HarnessError, InputError, KernelError
from dmverify.spec.case import Case, Outputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Producer, canonical

PROTOCOL, VERSION = "dmverify-kernel", 1
DEFAULT_TIMEOUT = 60.0
START = 120.0  # seconds to greet: a start may load libraries and build kernels
CAPABILITIES = ("forward", "backward", "delta")
PRODUCER = tuple(field.name for field in fields(Producer))


class _SaidNoError(KernelError):
    """An orderly ``ok: false``: the process goes on."""


class ProcessKernel:
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        command: Program and arguments, as a shell would split them.
        timeout: Seconds for one answer.

    Raises:
        InputError: For an empty command or a timeout that is not positive.
        KernelError: If the process cannot be started or does not greet as it should.
        HarnessError: If there is no temporary folder for inputs and outputs.
    """

    def __init__(self, command: str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        if not command.strip() or not (timeout > 0 and math.isfinite(timeout)):
            raise InputError(
                f"command {command!r}, timeout {timeout:g}",
                rule="a process kernel has a command and a timeout above 0 seconds",
                fix="write proc:COMMAND, and --timeout SECONDS",
            )
        self._command, self._timeout = command, timeout
        self._children: list[Child] = []
        with _own_disk("the temporary folder", rule="inputs and outputs lie in one"):
            self._folder = Path(tempfile.mkdtemp(prefix="dmverify-"))
        self._finalizer = weakref.finalize(self, _clean, self._children, self._folder)
        self._asked = 0
        self._greeting = self._start()

    @property
    def info(self) -> Producer:
        """What the process says it is."""
        said = {key: x for key, x in self._greeting["producer"].items() if key in PRODUCER}
        said["flags"] = tuple(said.get("flags", ()))
        return Producer(**said)

    @property
    def contract(self) -> str:
        """The contract that the process promises."""
        return str(self._greeting["contract"])

    def close(self) -> None:
        """Ends the process and removes its files."""
        self._finalizer()

    def supports(self, case: Case) -> Support:
        """Asks the process."""
        if "backward" not in self._greeting["capabilities"]:
            return Unsupported("the process has no backward pass")
        answer = self._ask("supports", **_question(case))
        if answer.get("supported") is True:
            return Supported()
        if answer.get("supported") is False:
            return Unsupported(str(answer.get("reason", "the process gives no reason")))
        raise _broken("supports", answer, "supported is true or false")

    def forward(self, case: Case) -> Forward:
        """O and LSE."""
        found = self._compute("forward", case, required=("o", "lse"), optional=())
        return Forward(**found)

    def backward(self, case: Case) -> Outputs:
        """Every output."""
        names = ("o", "lse", "dq", "dk", "dv")
        return Outputs(**self._compute("backward", case, required=names, optional=("delta",)))

    def _compute(
        self, op: str, case: Case, *, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, Any]:
        inputs = self._folder / f"inputs-{self._asked}.safetensors"
        outputs = self._folder / f"outputs-{self._asked}.safetensors"
        room = HEADER + estimate(case.problem).outputs
        try:
            before = self._place(inputs, case, room)
            try:
                self._ask(op, **_question(case), inputs=str(inputs), outputs=str(outputs))
                _require_unchanged(inputs, before, op)
                return read(outputs, largest=room, required=required, optional=optional)
            except KernelError as error:
                if not isinstance(error, _SaidNoError):
                    self._end()  # what broke once is not asked again
                self._require_free(room, error)
                raise
        finally:
            for path in self._folder.iterdir():  # half an answer under another name, too
                with contextlib.suppress(OSError):  # a directory, say; the folder goes at the end
                    path.unlink()

    def _place(self, inputs: Path, case: Case, room: int) -> Sealed:
        """Writes the inputs, and sees that the outputs will have room beside them."""
        content = encode((name, canonical(array)) for name, array in case.inputs.items())
        with _own_disk(str(inputs), rule="the inputs of a question can be written"):
            inputs.write_bytes(content)
        self._require_free(room)
        return seal(content)

    def _require_free(self, room: int, error: Exception | None = None) -> None:
        """Raises unless there is room: a process cannot be blamed for the judge's full disk."""
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        if free < room:
            raise HarnessError(
                f"{free} bytes free in {self._folder}",
                rule=f"the outputs of the question need {room}",
                fix="make room there, or set TMPDIR to another folder",
            ) from error

    def _ask(self, op: str, **fields_: object) -> dict[str, Any]:
        """One question, on a new process if the last one broke."""
        if not self._children:
            self._greeting = self._start()
        return self._exchange(op, **fields_)

    def _start(self) -> dict[str, Any]:
        self._children.append(Child(self._command))
        greeting = self._exchange("hello", protocol=PROTOCOL, version=VERSION)
        wrong = _wrong_greeting(greeting)
        if wrong:
            self._end()
            raise _broken("hello", greeting, wrong)
        return greeting

    def _exchange(self, op: str, **fields_: object) -> dict[str, Any]:
        self._asked += 1
        request = {"id": self._asked, "op": op, **fields_}
        try:
            line = self._children[-1].ask(
                json.dumps(request),
                what=f"{op!r}",
                timeout=max(START, self._timeout) if op == "hello" else self._timeout,
            )
            answer = _parsed(op, line)
            if answer.get("id") != self._asked:
                raise _broken(op, answer, f"the answer repeats the id, {self._asked}")
            if answer.get("ok") is not True and answer.get("ok") is not False:
                raise _broken(op, answer, "ok is true or false")
        except KernelError:
            self._end()
            raise
        if not answer["ok"]:
            said = str(answer.get("error", "no reason"))
            raise _SaidNoError(
                printable(said), rule=f"the process answers {op}", fix="see its stderr"
            )
        return answer

    def _end(self) -> None:
        while self._children:
            self._children.pop().end()


def _question(case: Case) -> dict[str, object]:
    return {"contract": case.contract, "problem": _problem(case.problem)}


def _problem(problem: Problem) -> dict[str, object]:
    named = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    return {**named, "softmax_scale": problem.scale}


def _parsed(op: str, line: str) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):  # brackets in brackets, a million deep
        answer = None
    if not isinstance(answer, dict):
        raise _broken(op, line[:80], "every line on stdout is a JSON object")
    return answer


def _wrong_greeting(greeting: dict[str, Any]) -> str:
    """What is wrong with it, in words; empty if nothing."""
    if (greeting.get("protocol"), greeting.get("version")) != (PROTOCOL, VERSION):
        return f"the protocol is {PROTOCOL} version {VERSION}"
    producer = greeting.get("producer")
    if not isinstance(producer, dict) or not isinstance(producer.get("kernel"), str):
        return "producer has the kernel's name"
    flags = producer.get("flags", [])
    texts = [producer.get(name, "") for name in PRODUCER if name != "flags"]
    if not isinstance(flags, list) or not all(isinstance(x, str) for x in (*flags, *texts)):
        return "producer is made of texts, and its flags are a list of texts"
    capabilities = greeting.get("capabilities")
    if not isinstance(capabilities, list) or any(c not in CAPABILITIES for c in capabilities):
        return f"capabilities are among {', '.join(CAPABILITIES)}"
    return "" if isinstance(greeting.get("contract"), str) else "contract is a name"


def _broken(op: str, value: object, rule: str) -> KernelError:
    return KernelError(
        f"{str(value)[:200]!r} after {op}",
        rule=rule,
        fix="keep stdout for the protocol; PROTOCOL.md in dmverify/conformance/process states it",
    )


def _require_unchanged(inputs: Path, before: Sealed, op: str) -> None:
    try:
        same = seal_of(inputs, largest=before.size) == before
    except (OSError, InputError):  # missing, a pipe, grown
        same = False
    if not same:
        raise _broken(op, "another inputs file", "the inputs file must not change")


@contextlib.contextmanager
def _own_disk(what: str, *, rule: str) -> Iterator[None]:
    """A disk that fails here is the judge's, and says nothing about the kernel."""
    try:
        yield
    except OSError as error:
        raise HarnessError(
            f"{what} ({error})", rule=rule, fix="make room there, or set TMPDIR to another folder"
        ) from error


def _clean(children: list[Child], folder: Path) -> None:
    while children:
        children.pop().end(farewell='{"id": 0, "op": "bye"}')
    shutil.rmtree(folder, ignore_errors=True)
