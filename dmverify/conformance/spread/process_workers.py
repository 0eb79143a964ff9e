"""Workers that are processes of this machine, where no cluster is needed.

They are those of ``pool``: one that ends costs its block, which comes back as lost, and the next
block gets a new one. Each asks a kernel of its own, so that all of the work is divided.

``-j`` means these where a kernel may be there several times (``may_divide``). It may not on the
machine's GPU, whose memory one kernel may need: there ``pool`` makes references for the one process
that asks it, unless ``--executor processes`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from dmverify.conformance.pool import Pool, WorkerError
from dmverify.conformance.spread.block import (
    Asking,
    Block,
    Done,
    Failed,
    Introduced,
    introduce,
    judge_block,
)
from dmverify.conformance.spread.lengths import most_large

Result = TypeVar("Result")


class ProcessWorkers:
    """See the module.

    Args:
        pool: The processes.
        waiting: Threads that wait for them.
        asking: How the kernel is asked.
    """

    def __init__(self, pool: Pool, waiting: ThreadPoolExecutor, asking: Asking) -> None:
        self._pool, self._waiting, self._asking = pool, waiting, asking
        self._done: SimpleQueue[Done | Failed | BaseException] = SimpleQueue()

    @property
    def count(self) -> int:
        """How many processes there are."""
        return self._pool.jobs

    @property
    def most_large(self) -> int:
        """How many large cases half of the memory has room for."""
        return most_large(self._pool.jobs)

    def introduce(self) -> Introduced:
        """What the kernel says of itself.

        Raises:
            DmverifyError: If it cannot be loaded.
            WorkerError: If it ends the process that loads it.
        """
        asked = self._pool.submit(partial(introduce, self._asking), what=self._asking.kernel)
        return _told(asked())

    def submit(self, block: Block) -> None:
        """Has a block judged."""
        call = partial(judge_block, self._asking, block)
        result = self._pool.submit(call, what=block.asked[0][0])
        self._waiting.submit(self._finish, block, result)

    def wait(self) -> Iterable[Done]:
        """Blocks that are done, at least one of those that were submitted."""
        found = [self._done.get()]
        while not self._done.empty():
            found.append(self._done.get())
        return [_told(one) for one in found]

    def _finish(self, block: Block, result: Callable[[], Any]) -> None:
        """Waits for a block, in a thread."""
        try:
            found = result()
            self._done.put(found if isinstance(found, Failed) else Done(block, found))
        except WorkerError:
            self._done.put(Done(block, None))
        except BaseException as error:  # for whoever waits, or that would be for ever
            self._done.put(error)


@contextmanager
def process_workers(asking: Asking, *, jobs: int) -> Iterator[ProcessWorkers]:
    """Starts processes, which end with the run.

    Args:
        asking: How the kernel is asked.
        jobs: How many.
    """
    waiting = ThreadPoolExecutor(thread_name_prefix="blocks")
    try:
        with Pool(jobs) as pool:
            yield ProcessWorkers(pool, waiting, asking)
    finally:
        waiting.shutdown()


def with_processes(jobs: int) -> Callable[[Asking], Any]:
    """What ``Spread.workers`` is for processes of this machine.

    Args:
        jobs: How many.
    """
    return partial(process_workers, jobs=jobs)


def _told(found: Result | Failed | BaseException) -> Result:
    if isinstance(found, Failed):
        raise found.again()
    if isinstance(found, BaseException):
        raise found
    return found
