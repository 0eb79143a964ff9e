"""The factors that cases are counted by, and the level of each factor that a case has.

A kernel goes wrong under a condition on a few of these at once: a group of five with 96 channels,
one query more than keys where the last key tile lacks one token. A factor that takes none of its
levels on a case (four key heads, a length of 0) has no level there, and the case counts for the
other factors only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dmverify.conformance.coverage.needs import CLASS, NOTHING, shows
from dmverify.conformance.families import parse_case_id, problem_of
from dmverify.spec.contracts import DELTAS, DS_CASTS, Contract, get_contract
from dmverify.spec.problem import Problem

TILE = 64
MANY = 5  # tiles from which the count no longer matters
SERVED_BY_ALL = (64, 128, 256)  # head dims; kernels that serve others serve these

VALUES = {
    "gaussian": ("gaussian", "lengths", "long", "counts"),
    "offset": ("offset", "constant-v", "positive-v", "cancelling-delta"),
    "logits": ("rows", "logit-size"),
    "zeros": ("zero-blocks",),
    "tiny": ("tiny-amax",),
    "scales": ("distinct-scales", "outliers"),
    "tokens": ("tagged", "duplicates", "permutation", "future"),
    "ties": ("rounding", "integers", "cast-ties", "exponentials", "deciding"),
    "non-finite": ("special",),
    "strided": ("layout",),
}
"""Families by the class of their values; captures and families in no class have no level."""

_CLASS = {family: name for name, families in VALUES.items() for family in families}


@dataclass(frozen=True)
class Question:
    """A case as the factors see it: nothing is drawn.

    Attributes:
        family: Name of the family.
        variant: Name of the variant.
        problem: Sizes, mask and scale.
        contract: What it is judged by.
    """

    family: str
    variant: str
    problem: Problem
    contract: Contract


@dataclass(frozen=True)
class Factor:
    """One column of the design.

    Attributes:
        name: For people.
        levels: Its levels.
        level: The level of a case; a word that is not in ``levels`` means none.
        contract: Whether it is the contract's and not the problem's.
    """

    name: str
    levels: tuple[str, ...]
    level: Callable[[Question], str]
    contract: bool = False


def ask(case_id: str, contract: str) -> Question:
    """The question of an id under a contract.

    Raises:
        UnknownNameError, InputError, ContractError: As for ``generate``.
    """
    parts = parse_case_id(case_id)
    return Question(parts.family, parts.variant, problem_of(case_id), get_contract(contract))


def relation(queries: int, keys: int) -> str:
    """How many queries there are for the keys; the empty word between the named relations."""
    near = {-1: "-1", 0: "=", 1: "+1"}.get(queries - keys)
    if near is not None:
        return near
    if queries <= keys // 2 or queries <= keys - TILE:
        return "<<"
    return ">>" if queries >= keys + TILE else ""


def _tiles(length: int) -> str:
    count = -(-length // TILE)
    return f"{MANY}+" if count >= MANY else str(count)


def _rest(length: int) -> str:
    rest = length % TILE
    return str(rest) if rest in (0, 1, TILE - 1) else "other"


def _scale(problem: Problem) -> str:
    usual = float(np.float32(problem.head_dim**-0.5))
    if problem.scale == usual:
        return "default"
    return "own" if problem.scale > 0 else "zero" if problem.scale == 0 else "negative"


_TILE_LEVELS = ("1", "2", "3", f"{MANY}+")
_REST_LEVELS = ("0", "1", "63", "other")

FACTORS = (
    Factor(
        "batch", ("1", "2", "3+"), lambda q: "3+" if q.problem.batch > 2 else str(q.problem.batch)
    ),
    Factor("key heads", ("1", "2", "3", "5"), lambda q: str(q.problem.kv_heads)),
    Factor("group", tuple(map(str, (*range(1, 9), 12, 16))), lambda q: str(q.problem.group)),
    Factor(
        "queries to keys",
        ("<<", "-1", "=", "+1", ">>"),
        lambda q: relation(q.problem.queries, q.problem.keys),
    ),
    Factor("key tiles", _TILE_LEVELS, lambda q: _tiles(q.problem.keys)),
    Factor("keys mod 64", _REST_LEVELS, lambda q: _rest(q.problem.keys)),
    Factor("query tiles", _TILE_LEVELS, lambda q: _tiles(q.problem.queries)),
    Factor("queries mod 64", _REST_LEVELS, lambda q: _rest(q.problem.queries)),
    Factor("head dim", ("32", "64", "96", "128", "256"), lambda q: str(q.problem.head_dim)),
    Factor("mask", ("causal", "none"), lambda q: "causal" if q.problem.causal else "none"),
    Factor("scale", ("default", "own", "negative", "zero"), lambda q: _scale(q.problem)),
    Factor("values", tuple(VALUES), lambda q: _CLASS.get(q.family, "")),
    Factor("delta", DELTAS, lambda q: q.contract.delta, contract=True),
    Factor("cast", DS_CASTS, lambda q: q.contract.ds_cast, contract=True),
)
LENGTHS = ("queries to keys", "key tiles", "keys mod 64", "query tiles", "queries mod 64")
"""The factors that two lengths decide together: not every combination has lengths."""


def levels_of(question: Question) -> tuple[int, ...]:
    """The index of the level of every factor, -1 where it has none; of an empty call, all -1."""
    problem = question.problem
    if not problem.batch * problem.queries * problem.keys:
        return (-1,) * len(FACTORS)
    words = (factor.level(question) for factor in FACTORS)
    return tuple(
        factor.levels.index(word) if word in factor.levels else -1
        for factor, word in zip(FACTORS, words, strict=True)
    )


def must_name(question: Question) -> frozenset[int] | None:
    """Which factors a combination has to contain for this case to count for it; None if none does.

    A case meets a combination only if a fault under that condition would show:

    | the case | counts for combinations that contain |
    |---|---|
    | has a head dim that some kernels decline | the head dim |
    | has softmax scale 0, so that dQ and dK are 0 | the scale |
    | has one key, so that dS is 0 | both factors of the number of keys |
    | has values that speak for their class only | the values |
    | has outputs that are mostly constant | nothing |
    """
    problem, words = question.problem, shows(question.family, question.variant)
    if words == NOTHING:
        return None
    names = {
        "head dim": problem.head_dim not in SERVED_BY_ALL,
        "scale": problem.scale == 0,
        "key tiles": problem.keys == 1,
        "keys mod 64": problem.keys == 1,
        "values": words == CLASS,
    }
    return frozenset(i for i, factor in enumerate(FACTORS) if names.get(factor.name, False))
