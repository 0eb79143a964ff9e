"""Runs the parts of a search in processes of their own, one BLAS thread each.

A part is (i, n); what it computes depends on nothing else, so that the parts of one run may be
computed anywhere and in any order.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from dmverify.errors import InputError
from dmverify.studies.blas import one_blas_thread

Result = TypeVar("Result")
Part = tuple[int, int]


def parallel(workers: int, work: Callable[..., Result], *rest: Any) -> Iterator[Result]:
    """``work((i, workers), *rest)`` for every i; in this process if there is one worker.

    Args:
        workers: Processes.
        work: A function of a module; its results travel between processes.
        *rest: What it takes besides the part.

    Raises:
        InputError: For fewer than one worker.
    """
    if workers < 1:
        raise InputError(
            f"workers={workers}", rule="a search has at least one process", fix="pass 1 or more"
        )
    if workers == 1:
        yield work((0, 1), *rest)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = [pool.submit(_alone, work, (i, workers), rest) for i in range(workers)]
        for job in as_completed(jobs):
            yield job.result()


def _alone(work: Callable[..., Result], part: Part, rest: tuple[Any, ...]) -> Result:
    with one_blas_thread():
        return work(part, *rest)
