"""The smallest input that keeps most of the effect: fewer queries, keys, heads, nonzero elements.

Parts are taken away as long as ``KEEP`` of the objective stays; in the end no single part of a kind
can go. Of a causal problem the first queries and keys can go, which leaves who sees whom as it was.
Where more than ``FEW`` queries are left, as each of them has a part in dK or dV, they are taken
away all the same, and the attack goes on each time from what is left, within its limits but for the
sizes of rows: fewer queries carry as much once they are tuned to each other. What it finds is taken
if it keeps as much. The limits do not hold for what is left in the end: it is for people to read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dmverify.attack.evaluate import WORST, Evaluator
from dmverify.attack.limits import Sizes
from dmverify.attack.search import gone_on
from dmverify.attack.stack import Stack, joined
from dmverify.spec.problem import Problem

KEEP = 0.9
FEW = 4  # queries that are enough for an effect, if there are such inputs
SPARE = 1.1  # how much more than needed is sought while further queries have to go
STARTS = 4  # candidates from which queries are taken away
PIECES = 64  # into which elements are divided first
QUERY, KEY = ("q", "do"), ("k", "v")


@dataclass(frozen=True)
class Anything:
    """No limits."""

    name: str = "none"

    def repair(self, problem: Problem, stack: Stack) -> Stack:
        """Returns the candidate as it is."""
        return stack

    def hold(self, problem: Problem, stack: Stack) -> Tensor:
        """Every candidate."""
        return torch.ones(len(stack), dtype=torch.bool)


@dataclass(frozen=True, eq=False)
class Small:
    """What is left.

    Attributes:
        problem: Its sizes.
        stack: One candidate.
        value: Its objective.
        nonzeros: How many of its elements are not 0.
    """

    problem: Problem
    stack: Stack
    value: float
    nonzeros: int


def shrink(evaluator: Evaluator, candidate: Stack, *, keep: float = KEEP) -> Small:
    """Takes parts away: heads, queries, keys, queries again, elements.

    Args:
        evaluator: Evaluator of the attack.
        candidate: One candidate.
        keep: Fraction of its objective that has to stay.
    """
    free = replace(evaluator, limits=Anything())
    least = keep * float(free.values(candidate)[0])
    problem, stack = evaluator.problem, candidate
    for words in (QUERY, KEY, QUERY):
        problem, stack = _rows(free, problem, stack, words, least)
    if problem.queries > FEW and isinstance(evaluator.limits, Sizes) and not problem.causal:
        problem, stack = _sought_again(evaluator, problem, stack, least)
    stack = _elements(replace(free, problem=problem), stack, least)
    value = float(replace(free, problem=problem).values(stack)[0])
    return Small(problem, stack, value, sum(int((x != 0).sum()) for x in stack.tensors()))


def _sought_again(
    evaluator: Evaluator, problem: Problem, stack: Stack, least: float
) -> tuple[Problem, Stack]:
    """Queries taken away, and after each time the attack goes on from what is left.

    Returns:
        The fewest queries that reach what is asked, and their candidate.
    """
    assert isinstance(evaluator.limits, Sizes)
    limits = replace(evaluator.limits, rows=Sizes.rows)  # few rows have to be larger
    evaluator = replace(evaluator, limits=limits)
    found, best = (problem, stack), limits.repair(problem, stack)
    while problem.queries > FEW:
        width = max((problem.queries - FEW) // 4, 1)
        starts = range(problem.queries - width + 1)
        options = joined([_without(best, QUERY, start, width) for start in starts])
        problem = replace(problem, queries=problem.queries - width)
        attempt = gone_on(
            replace(evaluator, problem=problem, count=0), options, enough=SPARE * least
        )
        if attempt.best.stack is None:
            break
        best = attempt.best.stack[:STARTS]
        if attempt.best.value >= least:
            found = problem, attempt.worst
    return found


def _rows(
    evaluator: Evaluator, problem: Problem, stack: Stack, words: tuple[str, ...], least: float
) -> tuple[Problem, Stack]:
    """Queries or keys, many at once and then one by one."""
    size = "queries" if words == QUERY else "keys"
    pieces = 8
    while True:
        count = getattr(problem, size)
        width = max(count // pieces, 1)
        if count <= 1:
            return problem, stack
        starts = [0] if problem.causal else list(range(0, count, width))
        options = [_without(stack, words, start, width) for start in starts if width < count]
        whole = [one for one in options if _length(one, words) == count - width]
        smaller = replace(problem, **{size: count - width})
        values = replace(evaluator, problem=smaller).values(joined(whole))
        at = int(torch.argmax(values))
        if float(values[at]) >= least and float(values[at]) > WORST:
            problem, stack = smaller, whole[at]
        elif width > 1:
            pieces *= 2
        else:
            return problem, stack


def _without(stack: Stack, words: tuple[str, ...], start: int, width: int) -> Stack:
    tensors = dict(stack.items())
    for name in words:
        x = tensors[name]
        tensors[name] = torch.cat([x[:, :start], x[:, start + width :]], 1)
    return Stack(**tensors)


def _length(stack: Stack, words: tuple[str, ...]) -> int:
    return int(getattr(stack, words[0]).shape[1])


def _elements(evaluator: Evaluator, stack: Stack, least: float) -> Stack:
    """Elements set to 0, in pieces that become smaller; small numbers are tried first."""
    flat = torch.cat([x.flatten() for x in stack.tensors()])
    width = max(flat.numel() // PIECES, 1)
    while True:
        order = torch.argsort(flat.abs(), stable=True)
        alive = order[flat[order] != 0]
        for piece in torch.split(alive, width):
            changed = flat.clone()
            changed[piece] = 0
            if float(evaluator.values(_shaped(changed, stack))[0]) >= least:
                flat = changed
        if width == 1 or not len(alive):
            return _shaped(flat, stack)
        width = max(width // 4, 1)


def _shaped(flat: Tensor, like: Stack) -> Stack:
    parts = torch.split(flat, [x.numel() for x in like.tensors()])
    return Stack(*(part.view(x.shape) for part, x in zip(parts, like.tensors(), strict=True)))
