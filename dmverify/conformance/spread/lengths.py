"""In which order cases are given out, so that all workers end together.

A long case that begins last keeps one worker busy while the others wait. So the longest ones come
first, longest of all at the front; the rest keep their order, since whoever watches a run, or stops
it, sees the first cases first.

| size of a case | is |
|---|---|
| ``work`` | the dots it is judged by, and a part that every case takes: an estimate of its time |
| large | one that takes a gigabyte or more to judge (``sizes.is_large``) |

Only the order and the size of blocks depend on these: a wrong estimate costs time, and no verdict
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dmverify.conformance.families import problem_of
from dmverify.conformance.selection import Asked
from dmverify.conformance.sizes import is_large, limit
from dmverify.errors import DmverifyError

ANY = 2.0**21  # work of the smallest case, in numbers of the unit of ``work``
TAIL = 1 / 30  # of what a worker has to do: a case that takes longer is given out first
ROOM = 1.5e9  # bytes of a process that judges the largest case of full, as measured


@dataclass(frozen=True)
class Length:
    """How long a case takes, and whether it needs much room.

    Attributes:
        work: In pairs of a query and a key, times channels: of one unit for all cases.
        large: Whether few such cases may be judged at a time.
    """

    work: float = 1.0
    large: bool = False


def length_of(asked: Asked) -> Length:
    """The length of a case.

    Args:
        asked: Its id and contract. One that nobody can make takes no time.
    """
    try:
        problem = problem_of(asked[0])
    except DmverifyError:
        return Length()
    rows = problem.batch * problem.heads * problem.queries
    pairs = rows * problem.keys / (2 if problem.causal else 1)
    return Length(ANY + pairs * problem.head_dim, is_large(problem))


def long_first(lengths: Mapping[int, Length], workers: int) -> list[int]:
    """Places of cases, the long ones first.

    Args:
        lengths: By place, in the order of the cases.
        workers: How many judge at a time.
    """
    least = TAIL * sum(one.work for one in lengths.values()) / workers
    long = [place for place, one in lengths.items() if one.work > least]
    first = sorted(long, key=lambda place: -lengths[place].work)
    known = set(long)
    return [*first, *(place for place in lengths if place not in known)]


def lengths_of(asked: Iterable[Asked], places: Iterable[int]) -> dict[int, Length]:
    """The length of each case that is to be judged.

    Args:
        asked: Every case.
        places: Where among them those are.
    """
    cases = tuple(asked)
    return {place: length_of(cases[place]) for place in places}


def most_large(jobs: int) -> int:
    """How many large cases may be judged at a time in processes of this machine.

    Args:
        jobs: How many processes there are.
    """
    return max(min(jobs, int(limit() / 2 / ROOM)), 1)
