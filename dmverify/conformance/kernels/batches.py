"""Long batches a few entries at a time, so that what a kernel holds in between stays small.

Entries are independent of each other: no scale, sum or order reaches across them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np

from dmverify.spec.case import Case, Inputs

NUMBERS = 1 << 22  # of q, k, v and dO that are taken together, if there are entries

Answer = TypeVar("Answer")
Kernel = TypeVar("Kernel")


def in_batches(case: Case, answer: Callable[[Case], Answer]) -> Answer:
    """The answer to a case, whose arrays are filled entry by entry if there are many.

    Args:
        case: The question.
        answer: Gives a dataclass of arrays with the entries in front.
    """
    step = _entries(case)
    if step >= case.problem.batch:
        return answer(case)
    whole: dict[str, Any] = {}
    for start, some in _parts(case, step):
        part = answer(some)
        assert is_dataclass(part)
        for field in fields(part):
            x = getattr(part, field.name)
            if not isinstance(x, np.ndarray):
                continue
            if field.name not in whole:
                whole[field.name] = np.empty((case.problem.batch, *x.shape[1:]), x.dtype)
            whole[field.name][start : start + len(x)] = x
    return replace(part, **whole)  # type: ignore[type-var]


def entry_by_entry(
    answer: Callable[[Kernel, Case], Answer],
) -> Callable[[Kernel, Case], Answer]:
    """A method of a kernel, which is asked a few entries of a long batch at a time."""

    @wraps(answer)
    def whole(kernel: Kernel, case: Case) -> Answer:
        return in_batches(case, partial(answer, kernel))

    return whole


def _entries(case: Case) -> int:
    """How many entries are taken together."""
    numbers = sum(x.size for _, x in case.inputs.items())
    return max(NUMBERS * case.problem.batch // max(numbers, 1), 1)


def _parts(case: Case, step: int) -> Iterator[tuple[int, Case]]:
    """Cuts a case into groups of batch entries, each with the number of its first entry."""
    for start in range(0, case.problem.batch, step):
        inputs = Inputs(**{name: x[start : start + step] for name, x in case.inputs.items()})
        problem = replace(case.problem, batch=len(inputs.q))
        yield start, replace(case, problem=problem, inputs=inputs)
