"""A child process that answers lines with lines, with one deadline for each question.

Nothing here waits without a limit: not for room in the child's input, nor for its output to end,
which a process that it started may hold open for ever, nor for it to die. It leads a process group
of its own, so that what it started dies with it. What it says unasked stays in the pipe, which then
is full. Not covered: a process that leaves the group on purpose (it lives on, but nobody waits for
it), one that fills the disk, and Windows.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO

from dmverify.errors import HarnessError, KernelError, KernelTimeoutError

LONGEST_LINE = 1 << 20  # bytes
CHUNK = 1 << 16  # bytes
QUOTED = 300  # characters of stderr in a message
GRACE = 2.0  # seconds for an orderly end, and again for a forced one
NOTHING: Mapping[str, str] = MappingProxyType({})
STEP = 0.05  # seconds after which it is looked whether the process is there at all


class Child:
    """One running process.

    Args:
        command: Program and arguments, as a shell would split them.
        environment: Variables that it gets beside those of this process.

    Raises:
        KernelError: If it cannot be started.
        HarnessError: If there is no room for what it will say on stderr.
    """

    def __init__(self, command: str, environment: Mapping[str, str] = NOTHING) -> None:
        self._command = command
        self._said = bytearray()  # on stdout, and not read yet
        try:
            self._errors = tempfile.TemporaryFile()
        except OSError as error:
            raise HarnessError(
                f"no temporary file ({error})",
                rule="stderr of a kernel's process is kept in a temporary file",
                fix="make room there, or set TMPDIR to another folder",
            ) from error
        try:
            self._process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=os.environ | dict(environment),
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            raise KernelError(
                f"proc:{command} ({error})",
                rule="a process kernel is a program that can be started",
                fix="check the path and that it is executable",
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._in, self._out):
            os.set_blocking(descriptor, False)

    def ask(self, line: str, *, what: str, timeout: float) -> str:
        """Sends a line and returns the next one.

        Args:
            line: Without its newline.
            what: The question in words, for messages.
            timeout: Seconds for all of it.

        Raises:
            KernelTimeoutError: If no line comes in time.
            KernelError: If the process ends, or sends a line that is too long.
        """
        deadline = time.monotonic() + timeout
        self._require_silence(what)
        try:
            self._send(line.encode() + b"\n", deadline)
            answer = self._line(what, deadline)
        except OSError:
            raise self._ended(what) from None
        if answer is None:
            raise KernelTimeoutError(
                f"no answer to {what} in {timeout:g} s{self._stderr()}",
                rule="a kernel answers every question in time",
                fix="look for a deadlock, or allow more with --timeout",
            )
        return answer.decode("utf-8", errors="replace").rstrip("\r")

    def end(self, *, farewell: str = "") -> None:
        """Ends the process and everything in its group."""
        if farewell and self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.write(self._in, farewell.encode() + b"\n")
        self._close(self._process.stdin)
        if farewell:
            self._wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._wait()  # one that the kernel cannot end is left to it
        self._close(self._process.stdout)
        self._close(self._errors)

    def _send(self, content: bytes, deadline: float) -> None:
        """Writes as the process reads; a process that does not read is met by ``_line``."""
        while content and (left := deadline - time.monotonic()) > 0 and self._lives():
            if _ready(self._in, select.POLLOUT, min(left, STEP)):
                content = content[os.write(self._in, content[:CHUNK]) :]

    def _line(self, what: str, deadline: float) -> bytes | None:
        """The next line; None if there is none by the deadline."""
        while b"\n" not in self._said:
            lives = self._lives()  # asked before reading: what it wrote last is read after all
            if not self._read(min(max(deadline - time.monotonic(), 0), STEP)):
                if not lives:
                    raise self._ended(what)
                if time.monotonic() >= deadline:
                    return None
            if len(self._said) > LONGEST_LINE:
                raise KernelError(
                    f"a line of more than {LONGEST_LINE} bytes after {what}",
                    rule="an answer is one line of JSON",
                    fix="keep stdout for the protocol and print to stderr",
                )
        line, _, rest = bytes(self._said).partition(b"\n")
        self._said = bytearray(rest)
        return line

    def _read(self, seconds: float) -> bool:
        """Whether there was something to read, in so many seconds.

        Raises:
            OSError: If nobody has the other end any more.
        """
        if not _ready(self._out, select.POLLIN, seconds):
            return False
        chunk = os.read(self._out, CHUNK)
        if not chunk:
            raise OSError("closed")
        self._said += chunk
        return True

    def _require_silence(self, what: str) -> None:
        """Raises if something is there already: the last question had two answers."""
        try:
            while self._read(0) and len(self._said) <= CHUNK:
                pass
        except OSError:
            if not self._said:
                raise self._ended(what) from None
        if self._said:
            raise KernelError(
                f"{bytes(self._said[:80])!r} before {what} was asked",
                rule="a question has one answer, and stdout holds nothing else",
                fix="answer once, and print to stderr",
            )

    def _lives(self) -> bool:
        return self._process.poll() is None

    def _wait(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)

    def _ended(self, what: str) -> KernelError:
        self._wait()
        code = self._process.returncode
        how = "closed its output" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by {_signal(-code)}"
        half = f" after half a line, {bytes(self._said[:80])!r}," if self._said else ""
        return KernelError(
            f"the process {how}{half} at {what}{self._stderr()}",
            rule="a kernel's process lives until it is told to end",
            fix=f"run {self._command} by hand and send it the question",
        )

    def _stderr(self) -> str:
        """The end of stderr."""
        size = os.fstat(self._errors.fileno()).st_size
        kept = os.pread(self._errors.fileno(), QUOTED, max(size - QUOTED, 0))
        text = " ".join(kept.decode("utf-8", errors="replace").split())
        return f"; its stderr ends: {text}" if text else ""

    @staticmethod
    def _close(stream: IO[bytes] | None) -> None:
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _ready(descriptor: int, event: int, seconds: float) -> bool:
    """Whether a call would return at once by then; it may return an error."""
    waiting = select.poll()  # unlike select, it takes any number of a descriptor
    waiting.register(descriptor, event)
    return bool(waiting.poll(math.ceil(1000 * seconds)))


def _signal(number: int) -> str:
    """Its name; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
