"""The line to a process: questions and answers, tensors on disk, a new process for a broken one.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dmverify.conformance.process.child import Child
from dmverify.conformance.process.greeting import (
    PROTOCOL,
    VERSION,
    Greeting,
    greeting_of,
    wrong_greeting,
)
from dmverify.conformance.store import Sealed, seal, seal_of
from dmverify.conformance.tensors import encode
from dmverify.conformance.words import printable
from dmverify.errors import (
    AnswerError,
    ContractError,
    DependencyError,
    DmverifyError,
    HarnessError,
    InputError,
    KernelError,
    UnknownNameError,
)
from dmverify.spec.case import Inputs
from dmverify.spec.recording import canonical

START = 120.0  # seconds to greet: a start may load libraries and build kernels
Found = TypeVar("Found")

# What a process may say of a question that it does not answer, by the word for it.
KINDS: dict[str, type[DmverifyError]] = {
    kind.code: kind
    for kind in (AnswerError, ContractError, DependencyError, InputError, UnknownNameError)
}


@dataclass(frozen=True)
class Program:
    """What is started.

    Attributes:
        command: Program and arguments, as a shell would split them.
        timeout: Seconds for one answer, which may be infinite.
        environment: Variables that it gets beside those of this process.
    """

    command: str
    timeout: float
    environment: Mapping[str, str]


class Link:
    """A process that is there when it is asked.

    Args:
        program: What to start.

    Raises:
        KernelError: If the process cannot be started or does not greet as it should.
        HarnessError: If there is no temporary folder for inputs and outputs.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._children: list[Child] = []
        with _own_disk(
            "the temporary folder", rule="inputs and outputs of a process lie in a temporary folder"
        ):
            self._folder = Path(tempfile.mkdtemp(prefix="dmverify-"))
        self._finalizer = weakref.finalize(self, _clean, self._children, self._folder)
        self._asked = 0
        self.greeting = self._start()

    def close(self) -> None:
        """Ends the process and removes its files."""
        self._finalizer()

    def ask(self, op: str, **fields_: object) -> dict[str, Any]:
        """One question, on a new process if the last one broke.

        Raises:
            DmverifyError: If the process breaks, or says that it cannot answer.
        """
        if not self._children:
            self.greeting = self._start()
        answer = self._exchange(op, **fields_)
        if not answer["ok"]:
            raise _refusal(op, answer)
        return answer

    def compute(
        self,
        op: str,
        inputs: Inputs | None,
        read: Callable[[Path, dict[str, Any]], Found],
        *,
        room: int,
        **fields_: object,
    ) -> Found:
        """One question about files.

        Args:
            op: What is asked.
            inputs: What the process gets; None if the question is not about any.
            read: Reads the outputs, given their path and the answer.
            room: Bytes that the outputs may need.
            fields_: What else the request has.

        Raises:
            DmverifyError: If the process breaks, says that it cannot answer, or writes no answer.
            HarnessError: If the disk has no room.
        """
        given = self._folder / f"inputs-{self._asked}.safetensors"
        outputs = self._folder / f"outputs-{self._asked}.safetensors"
        if inputs is not None:
            fields_["inputs"] = str(given)
        try:
            before = self._place(given, inputs, room)
            try:
                answer = self.ask(op, **fields_, outputs=str(outputs))
            except KernelError as error:
                self._require_free(room, error)
                raise
            try:
                if before is not None:
                    _require_unchanged(given, before, op)
                return read(outputs, answer)
            except KernelError as error:
                self._end()  # what broke once is not asked again
                self._require_free(room, error)
                raise
        finally:
            for path in self._folder.iterdir():  # half an answer under another name, too
                with contextlib.suppress(OSError):  # a directory, say; the folder goes at the end
                    path.unlink()

    def _place(self, path: Path, inputs: Inputs | None, room: int) -> Sealed | None:
        """Writes the inputs, and sees that the outputs will have room beside them."""
        sealed = None
        if inputs is not None:
            content = encode((name, canonical(array)) for name, array in inputs.named())
            with _own_disk(str(path), rule="the inputs of a question can be written"):
                path.write_bytes(content)
            sealed = seal(content)
        self._require_free(room)
        return sealed

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

    def _start(self) -> Greeting:
        self._children.append(Child(self._program.command, self._program.environment))
        said = self._exchange("hello", protocol=PROTOCOL, version=VERSION)
        if not said["ok"]:
            self._end()
            raise _refusal("hello", said)
        if wrong := wrong_greeting(said):
            self._end()
            raise broken("hello", said, wrong)
        return greeting_of(said)

    def _exchange(self, op: str, **fields_: object) -> dict[str, Any]:
        self._asked += 1
        request = {"id": self._asked, "op": op, **fields_}
        timeout = self._program.timeout
        try:
            line = self._children[-1].ask(
                json.dumps(request),
                what=f"{op!r}",
                timeout=max(START, timeout) if op == "hello" else timeout,
            )
            answer = _parsed(op, line)
            if answer.get("id") != self._asked:
                raise broken(op, answer, f"the answer repeats the id, {self._asked}")
            if answer.get("ok") is not True and answer.get("ok") is not False:
                raise broken(op, answer, "ok is true or false")
        except KernelError:
            self._end()
            raise
        return answer

    def _end(self) -> None:
        while self._children:
            self._children.pop().end()


def require_program(command: str, timeout: float) -> None:
    """Raises InputError unless there is a command, and a timeout above 0 that is a number."""
    if not command.strip() or not timeout > 0 or math.isnan(timeout):
        raise InputError(
            f"command {command!r}, timeout {timeout:g}",
            rule="a process kernel has a command and a timeout above 0 seconds",
            fix="write proc:COMMAND, and --timeout SECONDS",
        )


def broken(op: str, value: object, rule: str) -> KernelError:
    """The error for what breaks the protocol."""
    return KernelError(
        f"{str(value)[:200]!r} after {op}",
        rule=rule,
        fix="keep stdout for the protocol; PROTOCOL.md in dmverify/conformance/process states it",
    )


def _refusal(op: str, answer: dict[str, Any]) -> DmverifyError:
    """An orderly ``ok: false``: the process goes on."""
    kind = KINDS.get(str(answer.get("kind")), KernelError)
    said = {"error": "no reason", "rule": f"the process answers {op}", "fix": "see its stderr"}
    value, rule, fix = (printable(str(answer.get(key, other))) for key, other in said.items())
    return kind(value, rule=rule, fix=fix)


def _parsed(op: str, line: str) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):  # brackets in brackets, a million deep
        answer = None
    if not isinstance(answer, dict):
        raise broken(op, line[:80], "every line on stdout is a JSON object")
    return answer


def _require_unchanged(inputs: Path, before: Sealed, op: str) -> None:
    try:
        same = seal_of(inputs, largest=before.size) == before
    except (OSError, InputError):  # missing, a pipe, grown
        same = False
    if not same:
        raise broken(op, "another inputs file", "the inputs file must not change")


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
