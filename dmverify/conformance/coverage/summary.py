"""What a level covers and what it does not, as plain data, computed from the ids it selects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from dmverify.conformance.coverage.count import Coverage, cover, in_words, rows_of
from dmverify.conformance.coverage.factors import FACTORS, TILE, ask, levels_of
from dmverify.conformance.families import problem_of
from dmverify.conformance.selection import Asked
from dmverify.spec.problem import Problem

NOT_COVERED = (
    "combinations of four and more factors, but for those that happen to be there",
    "levels between the named ones: 4 key heads, 4 tiles, groups of 9 to 11 and beyond 16",
    "head dims other than 32, 64, 96, 128 and 256",
    "element types other than BF16 in and out",
    "dropout, biases, sliding windows, sinks, packed sequences of several lengths",
    "several streams, devices or threads that call at once",
    "captures in other shapes than those they were taken in",
)
"""What no level covers, whatever its ids."""
EXPLAINED = (
    "A case counts for a combination only if a fault under it would show: head dims that some "
    "kernels decline, scale 0, a single key, and values that speak for their class alone count "
    "where the combination names them. A kernel that serves head dims 64, 128 and 256 alone is "
    "therefore asked every combination of the other factors as well."
)


def _tiles(length: int) -> int:
    return -(-length // TILE)


SIZES: Mapping[str, Callable[[Problem], int]] = {
    "batch": lambda p: p.batch,
    "query heads": lambda p: p.heads,
    "key heads": lambda p: p.kv_heads,
    "group": lambda p: p.group,
    "queries": lambda p: p.queries,
    "keys": lambda p: p.keys,
    "keys for 1 to 8 queries": lambda p: p.keys if 0 < p.queries <= 8 else 0,
    "head dim": lambda p: p.head_dim,
    "batch x query heads": lambda p: p.batch * p.heads,
    "batch x key heads x key tiles": lambda p: p.batch * p.kv_heads * _tiles(p.keys),
    "batch x query heads x query tiles": lambda p: p.batch * p.heads * _tiles(p.queries),
    "scores of one head": lambda p: p.queries * p.keys,
}
"""What can be large, by name."""


@dataclass(frozen=True)
class Largest:
    """The largest of one size.

    Attributes:
        name: Key of ``SIZES``.
        size: How large.
        case: The id of the first case that is as large.
    """

    name: str
    size: int
    case: str


@dataclass(frozen=True)
class Summary:
    """What a list of cases covers.

    Attributes:
        level: Its name.
        cases: How many there are.
        contracts: Under how many contracts they are asked.
        padded_scores: Scores of all heads, lengths padded to tiles of 64.
        pairs: What the list covers of pairs of levels.
        triples: What it covers of triples.
        cases_by_level: Per factor, how many cases have each level.
        largest: The largest case by each size.
    """

    level: str
    cases: int
    contracts: int
    padded_scores: int
    pairs: Coverage
    triples: Coverage
    cases_by_level: tuple[tuple[int, ...], ...]
    largest: tuple[Largest, ...]

    def to_json(self) -> dict[str, object]:
        """Everything, every missing pair in words, and the number of missing triples by factors."""
        names = [factor.name for factor in FACTORS]
        return {
            "level": self.level,
            "cases": self.cases,
            "contracts": self.contracts,
            "padded_scores": self.padded_scores,
            "pairs": _counts(self.pairs),
            "triples": _counts(self.triples),
            "factors": {
                factor.name: dict(zip(factor.levels, counts, strict=True))
                for factor, counts in zip(FACTORS, self.cases_by_level, strict=True)
            },
            "by_pair_of_factors": [
                {
                    "factors": [names[a], names[b]],
                    "pairs": _counts(self.pairs, a, b),
                    "triples": _counts(self.triples, a, b),
                }
                for a, b in combinations(range(len(names)), 2)
                if (a, b) in self.pairs.wanted
            ],
            "missing_pairs": [in_words(*one) for one in self.pairs.missing()],
            "largest": [vars(one) for one in self.largest],
            "not_covered": list(NOT_COVERED),
        }


def _counts(coverage: Coverage, *factors: int) -> dict[str, int]:
    met, total = coverage.of(*factors)
    return {"met": met, "exist": total}


def summarise(level: str, asked: Sequence[Asked]) -> Summary:
    """What a list covers.

    Args:
        level: What to call it.
        asked: Case ids and contracts; the contract's factors count if there are several.
    """
    problems = [(case_id, problem_of(case_id)) for case_id, _ in asked]
    contracts = len({contract for _, contract in asked})
    rows = rows_of(asked)
    levels = [levels_of(ask(*one)) for one in asked]
    return Summary(
        level=level,
        cases=len(asked),
        contracts=contracts,
        padded_scores=sum(_padded(problem) for _, problem in problems),
        pairs=cover(rows, 2, contract=contracts > 1),
        triples=cover(rows, 3, contract=contracts > 1),
        cases_by_level=tuple(
            tuple(Counter(row[f] for row in levels)[i] for i in range(len(factor.levels)))
            for f, factor in enumerate(FACTORS)
        ),
        largest=tuple(_largest(name, problems) for name in SIZES),
    )


def _padded(problem: Problem) -> int:
    tiles = _tiles(problem.queries) * _tiles(problem.keys)
    return problem.batch * problem.heads * tiles * TILE**2


def _largest(name: str, problems: Sequence[tuple[str, Problem]]) -> Largest:
    case_id, problem = max(problems, key=lambda one: SIZES[name](one[1]))
    return Largest(name, SIZES[name](problem), case_id)
