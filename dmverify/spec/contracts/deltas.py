"""The modes of delta by what they read; terms, bounds and special values follow from these facts.

| mode | is (``dmverify.spec.attention.delta``) | O | dO |
|---|---|---|---|
| stale | <dO, O> | stored | as it came in |
| consistent | <dO^, O> | stored | as dP uses it |
| associated | <dO^, O32>; dS uses the forward's rounded P | before its store | as dP uses it |
| matched | sum_j P dP | | |
| renormalized | sum_j P dP over sum_j P | | |
| shifted | the same of dP - dP at the row's largest logit | | |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class DeltaMode:
    """One row.

    Attributes:
        meaning: What delta is, for people; the steps are ``dmverify.spec.attention.delta``.
        reads_stored: Whether it is a dot over channels that reads O as stored.
        reads_unstored: Whether it is one that reads O before its store.
        reads_input: Whether that dot reads dO as it came in, and not as dP uses it.
        forward_p: Whether dS uses the forward's rounded P.
        quotient: Whether it is divided by the sum of the weights.
        shifts: Whether a shift is taken off dP first.
    """

    meaning: str
    reads_stored: bool = False
    reads_unstored: bool = False
    reads_input: bool = False
    forward_p: bool = False
    quotient: bool = False
    shifts: bool = False

    @property
    def from_output(self) -> bool:
        """Whether it is a dot of O and dO, and not a sum over the row's own P dP."""
        return self.reads_stored or self.reads_unstored


DELTA_MODES: Mapping[str, DeltaMode] = MappingProxyType(
    {
        "stale": DeltaMode(
            "<dO, O>: O as stored, dO as it came in", reads_stored=True, reads_input=True
        ),
        "consistent": DeltaMode("<dO^, O>: dO^ as dP uses it", reads_stored=True),
        "matched": DeltaMode("sum of P dP: the very operands of the gradient"),
        "renormalized": DeltaMode("the same over the sum of P", quotient=True),
        "shifted": DeltaMode(
            "the same of dP less dP at the row's largest logit, which dS subtracts first",
            quotient=True,
            shifts=True,
        ),
        "associated": DeltaMode(
            "<dO^, O32>: O before its store; dS uses the forward's rounded P",
            reads_unstored=True,
            forward_p=True,
        ),
    }
)
"""By the word of a contract."""
