"""Which cases a level runs, and how a case id becomes a case under another contract.

| level | cases | ends |
|---|---|---|
| smoke | every family, one seed; captures | after a minute on two cores |
| full | eight seeds; then the large variants, with the first seed | after some ten minutes |
| soak | smoke's, seed after seed (``soak``) | when it is stopped |
"""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.conformance.families import generate, list_cases
from dmverify.errors import InputError, unknown_name
from dmverify.spec.case import Case


@dataclass(frozen=True)
class Level:
    """What a level draws.

    Attributes:
        seeds: How many seeds of every family, None for one after the other without end; captures
            run once.
        large: Whether the large variants follow, with the first seed.
    """

    seeds: int | None
    large: bool = False


SOAK = "soak"
LEVELS = {"smoke": Level(1), "full": Level(8, large=True), SOAK: Level(None)}


def select(level: str, contract: str, *, seed: int) -> tuple[Case, ...]:
    """The cases of a level, under a contract.

    Args:
        level: A key of ``LEVELS``.
        contract: Name of the contract they are judged by.
        seed: First seed of the drawn cases.

    Raises:
        UnknownNameError: If there is no such level.
        InputError: If the level has no end.
    """
    ids = select_ids(level, seed=seed)
    return tuple(generate(case_id, contract=contract) for case_id in ids)


def select_ids(level: str, *, seed: int) -> tuple[str, ...]:
    """The ids of the cases of a level, each once.

    Args:
        level: A key of ``LEVELS``.
        seed: First seed of the drawn cases.

    Raises:
        UnknownNameError: If there is no such level.
        InputError: If the level has no end.
    """
    chosen = get_level(level)
    if chosen.seeds is None:
        raise InputError(
            f"level {level!r}",
            rule="a list of cases has an end, and this level has none",
            fix="name smoke or full; 'dmverify verify KERNEL' takes this level",
        )
    seeds = range(seed, seed + chosen.seeds)
    ids = [case_id for s in seeds for case_id in list_cases(seed=s)]
    large = list_cases(seed=seed, on_demand=True) if chosen.large else ()
    return tuple(dict.fromkeys([*ids, *large]))


def get_level(name: str) -> Level:
    """The level of a name.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in LEVELS:
        raise unknown_name("level", name, LEVELS)
    return LEVELS[name]
