"""What a narrow mutant is: a condition on a case, and what happens to the answer where it holds.

Everywhere else the kernel is a correct one, bit for bit. So whether a level rejects it is a
property of the level's cases, not of the checks: every harm here is gross where it can show at all.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from dmverify.conformance.adapter import Forward, Kernel, Support
from dmverify.lab.mutants.narrow.conditions import CONTENT, SHAPE, Levels, has_level
from dmverify.lab.mutants.narrow.harms import HARMS
from dmverify.spec.case import Case, Outputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

BY_SMOKE = ("pair", "value", "contract")
"""Sections that smoke has to reject: what decides them is one level, or two together."""


@dataclass(frozen=True)
class Narrow:
    """One row.

    Attributes:
        id: Its name.
        section: How many levels decide: ``pair``, ``value``, ``contract``, ``triple``, ``size``.
        harm: A key of ``HARMS``.
        levels: Factors of the case, each with the level that it must have.
    """

    id: str
    section: str
    harm: str
    levels: Levels

    @property
    def by_smoke(self) -> bool:
        """Whether smoke has to reject it."""
        return self.section in BY_SMOKE

    def fits(self, problem: Problem) -> bool:
        """Whether the problem has the levels that are asked of it."""
        return all(
            has_level(SHAPE[factor](problem), level)
            for factor, level in self.levels.items()
            if factor in SHAPE
        )

    def holds(self, case: Case) -> bool:
        """Whether the kernel is wrong on this case."""
        return self.fits(case.problem) and all(
            CONTENT[factor](case, level)
            for factor, level in self.levels.items()
            if factor not in SHAPE
        )


def _rows() -> dict[str, Narrow]:
    data: dict[str, Any] = tomllib.loads(files(__package__).joinpath("narrow.toml").read_text())
    return {
        name: Narrow(name, section, row["harm"], {k: x for k, x in row.items() if k != "harm"})
        for section, rows in data.items()
        for name, row in rows.items()
    }


NARROW: Mapping[str, Narrow] = MappingProxyType(_rows())
"""Every narrow mutant, by its id."""


class Narrowed:
    """A correct kernel, wrong under one condition.

    Args:
        base: The correct kernel.
        mutant: When it is wrong, and how.
    """

    def __init__(self, base: Kernel, mutant: Narrow) -> None:
        self._base, self._mutant = base, mutant
        self.contract = base.contract

    @property
    def info(self) -> Provenance:
        """The mutant's name."""
        return Provenance(kernel=self._mutant.id)

    def supports(self, case: Case) -> Support:
        """What the correct kernel serves."""
        return self._base.supports(case)

    def forward(self, case: Case) -> Forward:
        """O and LSE of ``backward``: both passes are wrong in the same way."""
        answer = self.backward(case)
        return Forward(answer.o, answer.lse)

    def backward(self, case: Case) -> Outputs:
        """The correct answer, harmed where the condition holds."""
        answer = self._base.backward(case)
        return HARMS[self._mutant.harm](answer) if self._mutant.holds(case) else answer
