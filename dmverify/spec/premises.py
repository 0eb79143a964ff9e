"""What must hold of a case before a bound may use a lemma: premises as data, evaluated on the case.

A lemma is proved under hypotheses. Some hold by construction (codes are E4M3 numbers), some only
for numbers of a certain size. Each of the latter is a row here: the lemma, what must hold in words,
the size that decides, and the constant that it must stay below. Where a row fails, the bound says
nothing: it is infinite and keeps the row's words as its reason. It never rejects and never stops.

Not covered: hypotheses that a lemma does not state; those are for the reader of its proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F64
from dmverify.spec.constants import constant

BEYOND = "float64: the bound's value is beyond its range"
"""The reason of a bound that is infinite though every premise holds."""


@dataclass(frozen=True)
class Premise:
    """One obligation.

    Attributes:
        lemma: Id of the lemma that needs it.
        words: What must hold.
        measure: The size that decides, from the magnitudes of a case; one number or one a row.
        limit: Name of the constant that it must stay below.
    """

    lemma: str
    words: str
    measure: Callable[[Any], F64 | float]
    limit: str

    @property
    def reason(self) -> str:
        """Why a bound is infinite that needs this in vain."""
        return f"{self.lemma}: needs that {self.words}"

    def fails(self, magnitudes: Any) -> npt.NDArray[np.bool_]:
        """Where it does not hold; a size that is not a number holds nowhere."""
        return ~(np.asarray(self.measure(magnitudes)) < float(constant(self.limit)))


Failing = tuple[tuple[Premise, npt.NDArray[np.bool_]], ...]


def failing(premises: Iterable[Premise], magnitudes: Any) -> Failing:
    """The premises that fail somewhere, and where."""
    found = ((premise, premise.fails(magnitudes)) for premise in premises)
    return tuple((premise, where) for premise, where in found if where.any())


def reasons(failed: Failing, lemmas: Sequence[str], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Why a bound on these lemmas says nothing, '' where it does; strings of this shape."""
    words = np.full(shape, "", dtype=object)
    for premise, where in failed:
        if premise.lemma in lemmas:
            words[(words == "") & where] = premise.reason
    return words
