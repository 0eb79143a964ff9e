"""What a planted error of a stated size is: one row of ``table.DEVIATIONS``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dmverify.conformance.evidence import Evidence
from dmverify.lab.power.subject import Subject

Plant: TypeAlias = Callable[[Subject, float], Evidence]
"""``plant(subject, size)``: what the wrong kernel answers. Size 0 is no error."""


class NothingToPlantError(Exception):
    """The case has no place for the error; the message says why."""


@dataclass(frozen=True)
class Deviation:
    """One row.

    Attributes:
        check: Id of the check that has to reject it.
        id: Unique name; it begins with the check's.
        what: The error, in words; ``s`` is its size.
        stated: The size that matters.
        plant: Plants it.
        doubles: Whether other sizes are tried; not where the error is there or is not.
        mode: What follows the judge's name in the contract that it is judged under.
        term: The term of the ledger that has to leave its own bound, if one has to.
    """

    check: str
    id: str
    what: str
    stated: float
    plant: Plant
    doubles: bool = True
    mode: str = "delta=matched"
    term: str = ""

    def contract(self, judge: str) -> str:
        """Name of the contract that it is judged under."""
        return f"{judge}:{self.mode}"
