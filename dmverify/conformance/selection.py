"""Which cases a level asks, and under which contract each.

| level | cases | ends |
|---|---|---|
| smoke | every variant, in shapes that meet every pair; captures | after a minute on two cores |
| full | smoke, shapes that meet every triple, large variants once | after some ten minutes |
| soak | smoke's, seed after seed (``soak``) | when it is stopped |

The shapes are frozen rows (``coverage``; ``dmverify list coverage`` shows what they meet). A
variant without rows keeps its own shape: in full it has eight seeds, or one where the shape is the
point. Variants with a flag of ``OF_SOME`` are asked of contracts that have what they are about. A
kernel of several contracts is asked each case under the delta mode and cast of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from types import MappingProxyType

from dmverify.conformance.coverage.rows import Row, frozen_rows
from dmverify.conformance.families import FAMILIES, generate, list_cases
from dmverify.conformance.families.lengths import IN_SMOKE
from dmverify.conformance.tensor_files import brought_ids
from dmverify.errors import InputError, unknown_name
from dmverify.spec.case import Case
from dmverify.spec.contracts import DELTAS, DS_CASTS, Contract, get_contract

Asked = tuple[str, str]
"""A case id and the name of the contract that judges it."""

ONCE = ("lengths", "long", "counts")  # families whose point is a shape: other seeds add little
CAPTURES = "capture"
OF_SOME: Mapping[str, Callable[[Contract], bool]] = MappingProxyType(
    {
        "channel-blocks": lambda contract: contract.blocked,
        "other-formats": lambda contract: not contract.in_e4m3,
    }
)
"""Flags of variants that a level asks of some contracts alone, and of which."""


@dataclass(frozen=True)
class Level:
    """What a level draws.

    Attributes:
        seeds: How many seeds a variant without rows has, None for one after the other without end.
        every: Whether the rows and variants that smoke leaves out follow.
    """

    seeds: int | None
    every: bool = False


SOAK = "soak"
LEVELS = {"smoke": Level(1), "full": Level(8, every=True), SOAK: Level(None)}


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
    pairs = select_pairs(level, (contract,), seed=seed)
    return tuple(generate(case_id, contract=contract) for case_id, _ in pairs)


def select_ids(level: str, *, seed: int) -> tuple[str, ...]:
    """The ids of the cases of a level, each once.

    Args:
        level: A key of ``LEVELS``.
        seed: First seed of the drawn cases.

    Raises:
        UnknownNameError: If there is no such level.
        InputError: If the level has no end.
    """
    return tuple(case_id for case_id, _ in select_pairs(level, ("bundled",), seed=seed))


def select_pairs(level: str, contracts: Sequence[str], *, seed: int) -> tuple[Asked, ...]:
    """The ids of the cases of a level, each once, with the contract that each is asked under.

    Args:
        level: A key of ``LEVELS``.
        contracts: Names of the contracts that the kernel serves; of several, each case takes the
            one with the delta mode and cast of its row.
        seed: First seed of the drawn cases.

    Raises:
        UnknownNameError: If there is no such level.
        InputError: If the level has no end, or there is no contract.
        ContractError: For a name that is no contract.
    """
    chosen = get_level(level)
    if chosen.seeds is None:
        raise InputError(
            f"level {level!r}",
            rule="a list of cases has an end, and this level has none",
            fix="name smoke or full; 'dmverify verify KERNEL' takes this level",
        )
    choose = _Contracts(contracts)
    rest = _rest(seed, chosen.seeds, choose) if chosen.every else ()
    asked: dict[str, str] = {}
    for case_id, contract in chain(_smoke(seed, choose), rest):
        asked.setdefault(case_id, contract)
    return tuple(asked.items())


def choose_pairs(
    patterns: Sequence[str], level: str, contracts: Sequence[str], *, seed: int
) -> tuple[Asked, ...]:
    """The cases that are named, or the level's if none are, with the contract of each.

    Args:
        patterns: Case ids, or patterns of ids or of their part before the seed. Patterns mean what
            they match of the level and of all listed variants.
        level: A key of ``LEVELS``.
        contracts: Names of the contracts that the kernel serves, its own first. Of several, a case
            of the level takes the level's; any other takes the first.
        seed: First seed of the drawn cases.

    Raises:
        UnknownNameError: If nothing matches a pattern, or there is no such level.
    """
    if not patterns:
        return select_pairs(level, contracts, seed=seed)
    endless = get_level(level).seeds is None
    known = {} if endless else dict(select_pairs(level, contracts, seed=seed))
    for case_id in (*list_cases(seed=seed, on_demand=True), *brought_ids()):
        known.setdefault(case_id, contracts[0])
    ids = dict.fromkeys(text for one in patterns for text in _matching(one, known))
    return tuple((text, known.get(text, contracts[0])) for text in ids)


def _matching(text: str, known: Mapping[str, str]) -> list[str]:
    if not any(mark in text for mark in "*?["):
        return [text]
    found = [i for i in known if fnmatchcase(i, text) or fnmatchcase(i.partition("@")[0], text)]
    if not found:
        rule = "a pattern matches a case of the level or a listed variant"
        raise unknown_name("case", text, known, rule=rule, shown_by="dmverify list families")
    return found


def get_level(name: str) -> Level:
    """The level of a name.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in LEVELS:
        raise unknown_name("level", name, LEVELS)
    return LEVELS[name]


class _Contracts:
    """Which of a kernel's contracts a case is asked under, in whatever order it names them."""

    def __init__(self, names: Sequence[str]) -> None:
        if not names:
            raise InputError(
                "no contract",
                rule="every case is judged by a contract",
                fix="name a contract with --contract, or name a kernel, whose own it then is",
            )
        found = sorted(dict.fromkeys(map(get_contract, names)), key=_place)
        self._names = tuple(one.name for one in found)
        self._of = {(one.delta, one.ds_cast): one.name for one in reversed(found)}
        self._left_out = {flag for flag, has in OF_SOME.items() if not all(map(has, found))}

    def ask(self, flags: tuple[str, ...]) -> bool:
        """Whether they ask a variant with these flags: if all have what it is about."""
        return self._left_out.isdisjoint(flags)

    def of_row(self, row: Row) -> str:
        """The one with the row's delta and cast, or else one in turn."""
        turn = DELTAS.index(row.delta) * len(DS_CASTS) + DS_CASTS.index(row.cast)
        return self._of.get((row.delta, row.cast), self.in_turn(turn))

    def in_turn(self, number: int) -> str:
        """One after the other."""
        return self._names[number % len(self._names)]


def _place(contract: Contract) -> tuple[int, int]:
    return DELTAS.index(contract.delta), DS_CASTS.index(contract.ds_cast)


def _smoke(seed: int, choose: _Contracts) -> Iterator[Asked]:
    for name, family in FAMILIES.items():
        for place, variant in enumerate(family.variants):
            if not choose.ask(family.flags_of(variant)):
                continue
            rows = frozen_rows().get(f"{name}/{variant}", ())
            for row in rows:
                if row.smoke:
                    yield row.case_id(seed), choose.of_row(row)
            if not rows and _in_smoke(name, variant):
                yield f"{name}/{variant}@{seed}", choose.in_turn(place)
    for place, case_id in enumerate(list_cases(CAPTURES)):
        yield case_id, choose.in_turn(place)


def _in_smoke(family: str, variant: str) -> bool:
    if family == "lengths":
        return variant in IN_SMOKE
    return "on-demand" not in FAMILIES[family].flags_of(variant)


def _rest(seed: int, seeds: int, choose: _Contracts) -> Iterator[Asked]:
    """What full has beyond smoke, the large variants last."""
    large: list[Asked] = []
    for name, family in FAMILIES.items():
        for place, variant in enumerate(family.variants):
            if not choose.ask(family.flags_of(variant)):
                continue
            rows = frozen_rows().get(f"{name}/{variant}", ())
            yield from ((row.case_id(seed), choose.of_row(row)) for row in rows if not row.smoke)
            if rows:
                continue
            once = name in ONCE or "on-demand" in family.flags_of(variant)
            turns = range(0 if once else 1, 1 if once else seeds)
            asked = [
                (f"{name}/{variant}@{seed + k}", choose.in_turn(place + len(family.variants) * k))
                for k in turns
            ]
            if "on-demand" in family.flags_of(variant):
                large += asked
            else:
                yield from asked
    yield from large
