"""Which cases a level runs, and how a case id becomes a case under another contract."""

from __future__ import annotations

from dmverify.conformance.families import generate, list_cases
from dmverify.errors import unknown_name
from dmverify.spec.case import Case

# Level: how many seeds of every family; captures run once.
LEVELS = {"smoke": 1, "full": 8}


def select(level: str, contract: str, *, seed: int) -> tuple[Case, ...]:
    """The cases of a level, under a contract.

    Args:
        level: A key of ``LEVELS``.
        contract: Name of the contract they are judged by.
        seed: First seed of the drawn cases.

    Raises:
        UnknownNameError: If there is no such level.
    """
    seeds = range(seed, seed + _seeds(level))
    drawn = (case_id for s in seeds for case_id in list_cases(seed=s))
    return tuple(generate(case_id, contract=contract) for case_id in dict.fromkeys(drawn))


def _seeds(level: str) -> int:
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)
    return LEVELS[level]
