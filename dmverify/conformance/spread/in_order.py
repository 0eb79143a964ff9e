"""Blocks to workers, and findings back in the order of the cases, as one process finds them.

| what happens | then |
|---|---|
| a worker ends with its block (a signal, no memory, its machine is gone) | its cases are judged |
| | again, one by one, by other workers |
| a case is lost ``TRIES`` times alone | it is a finding of ``harness``: an error, no verdict |
| the run itself is interrupted | what came back is in its file, and a later run goes on |

Checks about the kernel (``Check.once``) belong to the first case that is served. They go with the
first block; should no case of it be served, the first one that is is judged again with them.

Long cases come first (``lengths``), and blocks become small towards the end (a quarter of the work
that is left, shared by all), so that no worker is at a long one when the others are done. Of large
cases only so many are judged at a time as the workers have room for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.spread.block import Block, Done, Workers
from dmverify.conformance.spread.findings_file import FindingsFile
from dmverify.conformance.spread.lengths import Length, long_first
from dmverify.conformance.spread.plan import ONCE, Plan
from dmverify.conformance.verdict import HARNESS, RUN, SUPPORT, Finding, Verdict

AHEAD = 2  # blocks a worker, so that it never waits for the next one
MOST = 16  # cases of a block
SHARE = 4  # blocks a worker that the work that is left is divided into
TRIES = 3
UNSERVED = frozenset({SUPPORT, RUN, HARNESS})


class InOrder:
    """A run over workers.

    Args:
        plan: What is asked.
        workers: Judge it.
        file: Keeps what comes back; None keeps nothing.
        lengths: How long each case takes, by place; those that are not named are taken as equal.
        in_turn: Whether cases are given out in their order whatever their length, as for a run that
            ends with the first failure.
    """

    def __init__(
        self,
        plan: Plan,
        workers: Workers,
        file: FindingsFile | None,
        *,
        lengths: Mapping[int, Length] = MappingProxyType({}),
        in_turn: bool = False,
    ) -> None:
        self._plan, self._workers, self._file = plan, workers, file
        self._found = dict(file.judged) if file else {}
        left = [place for place in plan.places if place not in self._found]
        self._lengths = {place: lengths.get(place, Length()) for place in left}
        self._in_turn = in_turn
        order = left if in_turn else long_first(self._lengths, workers.count)
        self._left = deque(place for place in order if not self._lengths[place].large)
        self._large = deque(place for place in order if self._lengths[place].large)
        self._work = sum(self._lengths[place].work for place in self._left)
        self._alone: deque[int] = deque()  # places that were lost with their block
        self._large_under_way: set[int] = set()
        self._kept = set(self._found)
        self._losses: Counter[int] = Counter()
        self._under_way = 0
        every = plan.checks or tuple(CHECKS)
        self._every, self._of_cases = every, tuple(n for n in every if n not in ONCE)
        self._whole = set(plan.places[:1])  # places that are judged by every check

    @property
    def complete(self) -> bool:
        """Whether every case is judged and kept; not if one was lost."""
        return self._kept >= set(self._plan.places)

    def work(self) -> Iterator[tuple[str, tuple[Finding, ...]]]:
        """Each case with its findings, in order.

        Raises:
            DmverifyError: If a worker cannot load the kernel.
        """
        waiting = set(ONCE.intersection(self._every))
        for place in self._plan.places:
            findings = self._await(place)
            if waiting and self._belongs(findings, waiting):
                findings = self._again(place)
            yield (
                self._plan.asked[place][0],
                tuple(f for f in findings if f.check not in ONCE or f.check in waiting),
            )
            waiting -= {finding.check for finding in findings}
            self._found[place] = ()  # whoever listens has them

    def _belongs(self, findings: tuple[Finding, ...], waiting: set[str]) -> bool:
        """Whether a case is the first that is served, and was judged without what belongs to it."""
        names = {finding.check for finding in findings}
        return not waiting <= names and not (names and names <= UNSERVED)

    def _again(self, place: int) -> tuple[Finding, ...]:
        del self._found[place]
        self._whole.add(place)
        self._submit((place,))
        return self._await(place)

    def _await(self, place: int) -> tuple[Finding, ...]:
        while place not in self._found:
            self._fill()
            for done in self._workers.wait():
                self._under_way -= 1
                self._take(done)
        return self._found[place]

    def _fill(self) -> None:
        room = AHEAD * self._workers.count
        while self._under_way < room and (places := self._next()):
            self._submit(places)

    def _next(self) -> tuple[int, ...]:
        if self._large and self._large_is_next():
            return (self._large.popleft(),)
        if self._alone:
            return (self._alone.popleft(),)
        return self._block()

    def _large_is_next(self) -> bool:
        if len(self._large_under_way) >= self._workers.most_large:
            return False
        return not (self._in_turn and self._left and self._left[0] < self._large[0])

    def _block(self) -> tuple[int, ...]:
        """Places that take a share of the work that is left, in order; one at least."""
        share = self._work / (SHARE * self._workers.count)
        taken: list[int] = []
        work = 0.0
        while self._left and len(taken) < MOST:
            of_next = self._lengths[self._left[0]].work
            if taken and work + of_next > share:
                break
            taken.append(self._left.popleft())
            work += of_next
        self._work -= work
        return tuple(sorted(taken))

    def _submit(self, places: tuple[int, ...]) -> None:
        checks = self._of_cases if self._whole.isdisjoint(places) else self._every
        asked = tuple(self._plan.asked[place] for place in places)
        self._workers.submit(Block(places, asked, checks))
        self._under_way += 1
        self._large_under_way.update(place for place in places if self._is_large(place))

    def _is_large(self, place: int) -> bool:
        return place in self._lengths and self._lengths[place].large

    def _take(self, done: Done) -> None:
        self._large_under_way.difference_update(done.block.places)
        if done.found is None:
            self._lose(done.block)
            return
        for place, findings in zip(done.block.places, done.found, strict=True):
            self._found[place] = findings
            self._kept.add(place)
            if self._file:
                self._file.keep(place, findings)

    def _lose(self, block: Block) -> None:
        if len(block.places) == 1:
            (place,) = block.places
            self._losses[place] += 1
            if self._losses[place] >= TRIES:
                reason = f"the worker that judged it ended, {TRIES} times"
                case = self._plan.asked[place][0]
                self._found[place] = (Finding(HARNESS, case, Verdict.ERROR, reason=reason),)
                return
        for place in block.places:
            (self._large if self._is_large(place) else self._alone).append(place)
