"""Processes that make references ahead of the judge: ``-j N``.

The kernel is asked in the judge's own process and in the order of the cases, as without a pool, so
that a run finds the same whatever N is. A worker gets a case and returns its references; between
the two lies a pipe with pickles, and nothing else is shared.

A worker that ends (out of memory, a signal) costs the case that it was given: asking for its
references raises ``WorkerError``, and the next case gets a new worker. Workers end when their input
does, so none outlives the judge. Each computes on one BLAS thread unless the environment names a
number. Not covered: a limit on the memory of all workers together; ``ahead`` keeps few cases.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import IO, Any

from dmverify.conformance.references import References, make, names_for
from dmverify.errors import DmverifyError, InputError
from dmverify.spec.case import Case
from dmverify.spec.contracts import get_contract

AHEAD = 2  # cases a worker that are made before they are asked for
WORKER = (sys.executable, "-m", "dmverify.conformance.pool")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class WorkerError(DmverifyError):
    """A process that made references ended before it returned them."""

    code = "DMV-WORKER"


class Pool:
    """Workers, started when there is work.

    Args:
        jobs: Number of processes.

    Raises:
        InputError: For fewer than one process.
    """

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise InputError(f"jobs={jobs}", rule="at least one process", fix="pass 1 or more")
        self.jobs = jobs
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="references")
        self._own = threading.local()
        self._workers: set[subprocess.Popen[bytes]] = set()

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
            worker.kill()
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            _end(worker)

    def submit(
        self, case: Case, names: Sequence[str], *, use_bits: bool = True
    ) -> Callable[[], Mapping[str, Any]]:
        """Has references made.

        Args:
            case: The case; its inputs travel.
            names: Of the references (``references``).
            use_bits: As for ``References``.

        Returns:
            What waits for them; it raises ``WorkerError`` if the worker ended.
        """
        return self._threads.submit(self._ask, (case, tuple(names), use_bits)).result

    def _ask(self, work: tuple[Case, tuple[str, ...], bool]) -> Mapping[str, Any]:
        """In a thread of the pool: sends work to the thread's worker and waits for the answer."""
        worker = getattr(self._own, "worker", None) or self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            pickle.dump(work, worker.stdin, pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            found: Mapping[str, Any] = pickle.load(worker.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._own.worker = None
            self._workers.discard(worker)
            code = _end(worker)
            raise WorkerError(
                f"a worker that ended with code {code} at {work[0].id}",
                rule="a worker returns the references of its case",
                fix="free memory, or run with fewer processes (-j)",
            ) from error
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        threads = dict.fromkeys(THREADS, "1") | os.environ
        path = os.pathsep.join(text for text in sys.path if text)
        self._own.worker = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=threads | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the judge, who ends them
        )
        self._workers.add(self._own.worker)
        started: subprocess.Popen[bytes] = self._own.worker
        return started


def _end(worker: subprocess.Popen[bytes]) -> int:
    worker.kill()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    return worker.wait()


def ahead(
    cases: Iterable[Case], pool: Pool | None, *, use_bits: bool, reads: bool, accuracy: bool
) -> Iterator[References]:
    """The references of each case in turn; a pool makes those of the next ones meanwhile.

    Args:
        cases: Taken one by one; with a pool, ``AHEAD`` a worker are in memory at a time.
        pool: None makes them here, when they are asked for.
        use_bits: As for ``References``.
        reads: Whether any check reads them.
        accuracy: Whether the distance from float64 attention is measured.
    """
    if pool is None or not reads:
        yield from (References(case, use_bits=use_bits) for case in cases)
        return
    waiting: deque[References] = deque()
    for case in cases:
        names = names_for(get_contract(case.contract), use_bits=use_bits, accuracy=accuracy)
        made = pool.submit(case, names, use_bits=use_bits)
        waiting.append(References(case, use_bits=use_bits, made=made))
        if len(waiting) > AHEAD * pool.jobs:
            yield waiting.popleft()
    yield from _emptied(waiting)


def _emptied(waiting: deque[References]) -> Iterator[References]:
    while waiting:
        yield waiting.popleft()


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """A worker: answers until its input ends."""
    while True:
        try:
            case, names, use_bits = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(make(case, names, use_bits=use_bits), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    serve(sys.stdin.buffer, kept)
