"""Processes that compute for the judge: ``-j N``.

A worker gets a call of a function and returns what it gives; between the two lies a pipe with
pickles, and nothing else is shared. A call that raises is made again here, so that its error is the
one that would have been met without a pool.

| what is divided | calls are | the kernel is asked |
|---|---|---|
| whole cases (``spread.process_workers``) | blocks of cases | by each worker, one of its own |
| references alone (``ahead``) | references of a case | by the judge, in the order of the cases |

The second way is for a kernel that is not to be there twice: one on the only GPU, an object of the
judge's process.

A worker that ends (out of memory, a signal) costs the call that it was given: asking for its result
raises ``WorkerError``, and the next call gets a new worker. Workers end when their input does, so
none outlives the judge, or when they are told to, which gives them time to end a kernel's process
and to remove its files. Each has one BLAS thread (``environment``). Not covered: a limit on the
memory of all workers together; ``ahead`` keeps few cases.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import IO, Any, Protocol, TypeVar

from dmverify.conformance.environment import of_python
from dmverify.conformance.references import References, make, names_for
from dmverify.conformance.sizes import is_large
from dmverify.errors import DmverifyError, InputError
from dmverify.memory import give_back_long_arrays
from dmverify.spec.case import Case
from dmverify.spec.contracts import get_contract

Result = TypeVar("Result")
AHEAD = 2  # cases a worker that are made before they are asked for
WORKER = (sys.executable, "-P", "-m", "dmverify.conformance.pool")
ENDED = 128 + signal.SIGTERM  # exit code, as shells say it
GRACE = 5.0  # seconds for an orderly end: a kernel's process has 2 and 2 of its own


class WorkerError(DmverifyError):
    """A process that made references ended before it returned them."""

    code = "DMV-WORKER"


class Makers(Protocol):
    """What makes references ahead of the judge: processes here, or the CPUs of a cluster."""

    @property
    def jobs(self) -> int:
        """How many are made at a time."""

    def submit(self, call: Callable[[], Result], *, what: str) -> Callable[[], Result]:
        """Has something computed; see ``Pool.submit``."""


class Pool:
    """Workers, started when there is work.

    Args:
        jobs: Number of processes.

    Raises:
        InputError: For fewer than one process.
    """

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise InputError(
                f"jobs={jobs}", rule="a run has at least one process", fix="pass 1 or more"
            )
        self.jobs = jobs
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="references")
        self._own = threading.local()
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._room: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the workers, whatever they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in tuple(self._workers):
            worker.terminate()
        for worker in tuple(self._workers):
            _stop(worker)
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            _end(worker)
        if self._room is not None:
            self._room.cleanup()

    def submit(self, call: Callable[[], Result], *, what: str) -> Callable[[], Result]:
        """Has something computed.

        Args:
            call: A function of a module with its arguments, which travel.
            what: The id of its case, for messages.

        Returns:
            What waits for the result; it raises ``WorkerError`` if the worker ended.
        """
        if self._room is None:  # of the workers' files, whichever way the workers end
            self._room = tempfile.TemporaryDirectory(prefix="dmverify-", ignore_cleanup_errors=True)
        future = self._threads.submit(self._ask, call, what)

        def result() -> Result:
            done, found = future.result()
            made: Result = found if done else call()
            return made

        return result

    def _ask(self, call: Callable[[], object], what: str) -> tuple[bool, Any]:
        """Sends a call to the worker of this thread of the pool and waits for the answer."""
        worker = getattr(self._own, "worker", None) or self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            pickle.dump(call, worker.stdin, pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            answer: tuple[bool, Any] = pickle.load(worker.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._own.worker = None
            self._workers.discard(worker)
            code = _end(worker)
            raise WorkerError(
                f"a worker that ended with code {code} at {what}",
                rule="a worker process lives until its call has returned",
                fix="free memory, or run with fewer processes (-j)",
            ) from error
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        assert self._room is not None
        self._own.worker = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **of_python(), "TMPDIR": self._room.name},
            start_new_session=True,  # Ctrl-C is for the judge, who ends them
        )
        self._workers.add(self._own.worker)
        started: subprocess.Popen[bytes] = self._own.worker
        return started


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """Ends a worker, in good order if possible: it may have files and a kernel's process."""
    worker.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(GRACE)
    worker.kill()


def _end(worker: subprocess.Popen[bytes]) -> int:
    _stop(worker)
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    return worker.wait()


def ahead(
    cases: Iterable[Case], pool: Makers | None, *, use_bits: bool, reads: bool, accuracy: bool
) -> Iterator[References]:
    """The references of each case in turn; a pool makes those of the next ones meanwhile.

    Args:
        cases: Taken one by one; with a pool, ``AHEAD`` a worker are in memory at a time, and none
            after a large one.
        pool: None makes them here, when they are asked for.
        use_bits: As for ``References``.
        reads: Whether any check reads them.
        accuracy: Whether the distance from float64 attention is measured.
    """
    if pool is None or not reads:
        yield from (References(case, use_bits=use_bits) for case in cases)
        return
    made = _being_made(cases, pool, use_bits, accuracy)
    yield from _few(made, AHEAD * pool.jobs, alone=lambda one: is_large(one.case.problem))


def in_order(
    calls: Iterable[tuple[str, Callable[[], Result]]], pool: Pool | None, *, ahead: int = AHEAD
) -> Iterator[Result]:
    """The results of calls in their order; a pool computes the next ones meanwhile.

    Args:
        calls: The id of a case, and what is computed for it.
        pool: None computes them here.
        ahead: How many a worker are under way or waiting; many where calls and results are small,
            so that a long one does not keep the others idle.
    """
    if pool is None:
        yield from (call() for _, call in calls)
        return
    made = (pool.submit(call, what=name) for name, call in calls)
    yield from (result() for result in _few(made, ahead * pool.jobs))


def _being_made(
    cases: Iterable[Case], pool: Makers, use_bits: bool, accuracy: bool
) -> Iterator[References]:
    for case in cases:
        if is_large(case.problem):  # its bands are made where they are read, part by part
            yield References(case, use_bits=use_bits)
            continue
        names = names_for(get_contract(case.contract), use_bits=use_bits, accuracy=accuracy)
        made = pool.submit(partial(make, case, names, use_bits=use_bits), what=case.id)
        yield References(case, use_bits=use_bits, made=made)


def _few(
    items: Iterable[Result], count: int, *, alone: Callable[[Result], bool] = lambda item: False
) -> Iterator[Result]:
    """Yields the items, ``count`` of them taken ahead, none while one that is ``alone`` waits."""
    waiting: deque[Result] = deque()
    for item in items:
        waiting.append(item)
        while len(waiting) > count or (waiting and alone(waiting[-1])):
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """A worker: answers until its input ends."""
    while True:
        try:
            call = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_tried(call), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _tried(call: Callable[[], object]) -> tuple[bool, object]:
    try:
        return True, call()
    except Exception:
        return False, None


if __name__ == "__main__":
    kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    give_back_long_arrays()
    serve(sys.stdin.buffer, kept)
