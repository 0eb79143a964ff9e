"""A child process that answers lines with lines, with a deadline for each.

It leads a process group of its own, so that what it started dies with it. What it says unasked is
kept up to ``WAITING`` lines, then it has to wait. Not covered: a child that leaves its group on
purpose (it lives on, but nobody waits for it), one that fills the disk, and Windows.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import threading
from typing import IO

from dmverify.errors import KernelError, KernelTimeoutError

LONGEST_LINE = 1 << 20  # bytes
WAITING = 16  # lines
QUOTED = 300  # characters of stderr in a message
GRACE = 2.0  # seconds for an orderly end


class Child:
    """One running process.

    Args:
        command: Program and arguments, as a shell would split them.

    Raises:
        KernelError: If it cannot be started.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            raise KernelError(
                f"proc:{command} ({error})",
                rule="a process kernel is a program that can be started",
                fix="check the path and that it is executable",
            ) from error
        self._lines: queue.Queue[bytes] = queue.Queue(WAITING)
        assert self._process.stdout is not None
        reader = threading.Thread(target=_read, args=(self._process.stdout, self._lines))
        reader.daemon = True
        reader.start()
        self._reader = reader

    def ask(self, line: str, *, what: str, timeout: float) -> str:
        """Sends a line and returns the next one.

        Args:
            line: Without its newline.
            what: The question in words, for messages.
            timeout: Seconds.

        Raises:
            KernelTimeoutError: If no line comes in time.
            KernelError: If the process ends, or sends a line that is too long.
        """
        assert self._process.stdin is not None
        self._require_silence(what)
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended(what) from None
        try:
            answer = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise KernelTimeoutError(
                f"no answer to {what} in {timeout:g} s{self._said()}",
                rule="a kernel answers every question in time",
                fix="look for a deadlock, or allow more with --timeout",
            ) from None
        if not answer:
            raise self._ended(what)
        if not answer.endswith(b"\n"):
            raise KernelError(
                f"a line of more than {LONGEST_LINE} bytes, or half a line, after {what}",
                rule="an answer is one line of JSON",
                fix="keep stdout for the protocol and print to stderr",
            )
        return answer.decode("utf-8", errors="replace").rstrip("\r\n")

    def end(self, *, farewell: str = "") -> None:
        """Ends the process and everything it started."""
        if farewell and self._process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                assert self._process.stdin is not None
                self._process.stdin.write(farewell.encode() + b"\n")
                self._process.stdin.close()
                self._process.wait(GRACE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        while self._reader.is_alive():  # it may wait for room
            try:
                self._lines.get(timeout=GRACE)
            except queue.Empty:
                break
        for stream in (self._process.stdin, self._errors):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _require_silence(self, what: str) -> None:
        """Raises if a line is there already: the last question had two answers."""
        with contextlib.suppress(queue.Empty):
            line = self._lines.get_nowait()
            if not line:
                raise self._ended(what)
            raise KernelError(
                f"{line[:80]!r} before {what} was asked",
                rule="a question has one answer, and stdout holds nothing else",
                fix="answer once, and print to stderr",
            )

    def _ended(self, what: str) -> KernelError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        code = self._process.returncode
        how = "closed its output" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        return KernelError(
            f"the process {how} at {what}{self._said()}",
            rule="a kernel's process lives until it is told to end",
            fix=f"run {self._command} by hand and send it the question",
        )

    def _said(self) -> str:
        """The end of stderr."""
        size = os.fstat(self._errors.fileno()).st_size
        kept = os.pread(self._errors.fileno(), QUOTED, max(size - QUOTED, 0))
        text = " ".join(kept.decode("utf-8", errors="replace").split())
        return f"; its stderr ends: {text}" if text else ""


def _read(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Passes lines on; an empty one says that there are no more.

    It closes the stream itself: for another thread that would never return while this one reads.
    """
    with contextlib.suppress(OSError, ValueError), stream:
        while line := stream.readline(LONGEST_LINE):
            lines.put(line)
    lines.put(b"")
