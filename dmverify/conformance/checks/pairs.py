"""Numbers of a second answer beside those of the first, and what is said of those that differ.

A number that differs lies in its band, or has the same bits where the contract states every order.
What differs only where the first answer is outside its band too says nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmverify.conformance.checks.bands import outside
from dmverify.conformance.checks.hull import hull
from dmverify.conformance.checks.judgement import bands_at
from dmverify.conformance.checks.margins import Flags, compare, element, hex_code
from dmverify.conformance.checks.questions import Moved, Question
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.spec.case import F32, Case
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure import Band

REPEAT = "repeat-whole"
TINY = np.float32(2.0**-100)  # below it sums of tiny terms may round, however large the inputs


@dataclass(frozen=True)
class Relation:
    """A relation: one row of the table in ``relations``.

    Attributes:
        question: What it asks.
        holds: Why it does not hold under a contract, in words; empty where it holds.
        around: The condition of ``surroundings`` under which the kernel answers, if any.
        always_bits: Whether the bits agree whatever the contract.
        skip_tiny: Whether numbers below ``TINY`` are left out: powers of two move them into and out
            of the subnormal range.
        rests_on: The relation without which this one says nothing.
    """

    question: Question
    holds: Callable[[Contract], str] = lambda contract: ""
    around: str = ""
    always_bits: bool = False
    skip_tiny: bool = False
    rests_on: str = ""


@dataclass(frozen=True)
class Pairs:
    """Numbers of the second answer beside those of the first."""

    evidence: Evidence
    relations: Sequence[Relation]
    moved: Moved
    lenient: bool

    @property
    def other_names(self) -> str:
        """Outputs that the first answer does not have."""
        first = dict(self.evidence.outputs.items())
        return ", ".join(name for name in self.moved if name not in first)

    def part(self, name: str, array: Any) -> Any:
        """The part of an array of the first question that is compared."""
        for relation in self.relations:
            array = relation.question.part(self.evidence.case, name, array)
        return array

    def due(self, name: str) -> F32:
        """The first answer's numbers."""
        found: F32 = self.part(name, getattr(self.evidence.outputs, name))
        return found

    def left_out(self, got: F32, due: F32) -> Flags:
        """What is not compared; where NaN was first, the number that came then says how small."""
        skip = self.lenient and any(relation.skip_tiny for relation in self.relations)
        size = np.abs(np.where(np.isnan(due), got, due))
        return (size < TINY) | (size > 1 / TINY) if skip else np.zeros(due.shape, dtype=bool)

    def follows(self, failed: dict[str, Flags]) -> tuple[str, ...]:
        """The checks of the outputs if all these elements were outside before; else nothing.

        If the same question has other answers, its check comes before all of them.
        """
        assert self.evidence.session is not None
        again = self.evidence.session.second.get(f"asked {REPEAT}")
        if again is not None and again.verdict is Verdict.FAILS:
            return (REPEAT,)
        some = {name: flags for name, flags in failed.items() if flags.any()}
        before = (self.part(name, outside(self.evidence, name)) for name in some)
        known = all((b | ~flags).all() for b, flags in zip(before, some.values(), strict=True))
        return tuple(some) if known else ()

    def place(self, at: Any) -> tuple[int, ...]:
        """An index in the first question's frame: the last entry may have a copy behind it."""
        entry, *rest = (int(i) for i in at)
        return (min(entry, self.evidence.case.problem.batch - 1), *rest)


def in_bits(check: str, pairs: Pairs, *, zeros: bool) -> Finding:
    """Compares by bits, the sign of zero included where ``zeros`` says so."""
    judged, changed = 0, {}
    for name, got in pairs.moved.items():
        due = pairs.due(name)
        judged += due.size
        other = differ(got, due) & ~pairs.left_out(got, due)
        if zeros:
            other |= np.signbit(got) & ~np.signbit(due) & (got == 0)
        if other.any():
            changed[name] = other
    if not changed:
        return Finding(check, pairs.evidence.case.id, Verdict.CONFORMS, 0.0, judged=judged)
    name, other = next(iter(changed.items()))
    got, due = pairs.moved[name], pairs.due(name)
    at = tuple(np.argwhere(other)[0])
    reason = (
        f"{name}{list(pairs.place(at))} = {hex_code(got[at])} after the change, "
        f"{hex_code(due[at])} before; {int(other.sum())} of {due.size} elements differ"
    )
    found = fails(check, pairs.evidence.case, judged, reason)
    known = () if zeros else pairs.follows(changed)
    return replace(found, pattern=hull(name, other), follows=known)


def differ(got: F32, due: F32) -> Flags:
    """Which numbers are not the same; NaN is NaN, and zeros are."""
    return np.asarray((got != due) & ~(np.isnan(got) & np.isnan(due)))


def in_bands(check: str, pairs: Pairs) -> Finding:
    """What differs lies in its band; what does not is the first answer's, and judged there."""
    worst: Element | None = None
    judged = open_ = bad = 0
    failed: dict[str, Flags] = {}
    for name, got in pairs.moved.items():
        due = pairs.due(name)
        judged += due.size
        other = differ(got, due) & ~pairs.left_out(got, due)
        if not other.any():
            continue
        band = _chosen(pairs, name, other)
        found = compare(got[other], band)
        open_, bad = open_ + int(found.open.sum()), bad + int((found.margin > 1).sum())
        failed[name] = np.zeros_like(other)
        failed[name][other] = found.margin > 1
        first = int(np.argmax(found.margin))
        here = element(name, got[other], band, (first,), float(found.margin[first]))
        if worst is None or here.margin > worst.margin:
            worst = replace(here, index=pairs.place(np.argwhere(other)[first]))
    return Finding(
        check,
        pairs.evidence.case.id,
        Verdict.FAILS if bad else Verdict.CONFORMS,
        margin=0.0 if worst is None else worst.margin,
        worst=worst,
        judged=judged,
        open=open_,
        reason=f"{bad} of {judged} elements leave their bound after the change" if bad else "",
        pattern=None if worst is None or not bad else hull(worst.output, failed[worst.output]),
        follows=pairs.follows(failed) if bad else (),
    )


def _chosen(pairs: Pairs, name: str, where: Flags) -> Band:
    """The band of some elements, in one row."""
    due = getattr(pairs.evidence.outputs, name)
    places = pairs.part(name, np.arange(due.size).reshape(due.shape))
    return bands_at(pairs.evidence, name, places[where])


def fails(check: str, case: Case, judged: int, reason: str) -> Finding:
    """A failure that no margin measures."""
    return Finding(check, case.id, Verdict.FAILS, np.inf, judged=judged, reason=reason)
