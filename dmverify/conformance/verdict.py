"""What a check concludes: a verdict, a margin and the worst element.

A margin (``dmverify.spec.margin``) of at most 1 conforms. NaN where a number is due, or a number
where NaN is due, has an infinite one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from dmverify.conformance.accuracy import Accuracy
from dmverify.conformance.pattern import Pattern


class Verdict(Enum):
    """Kept apart: a kernel that cannot serve a case is not one that gets it wrong.

    | verdict | says |
    |---|---|
    | conforms | something was judged, and it is what the contract allows |
    | fails | something is not what the contract allows |
    | indeterminate | the contract allows any answer here: nothing was decided |
    | unsupported | the kernel does not serve this, for a reason |
    | error | the kernel or a check broke, so there is no answer to judge |
    | timeout | the kernel gave no answer in time and was ended |
    """

    CONFORMS = "conforms"
    FAILS = "fails"
    INDETERMINATE = "indeterminate"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    TIMEOUT = "timeout"


FAILURES = (Verdict.FAILS, Verdict.ERROR, Verdict.TIMEOUT)
SUPPORT, RUN, HARNESS = "supported", "run", "harness"  # findings of no check of the table


@dataclass(frozen=True)
class Element:
    """One element of an output, with what it was and what it may be.

    Attributes:
        output: Name of the tensor.
        index: Position in it.
        got: What the kernel returned, and its bits.
        expected: The reference in the middle of what the contract allows, and its float32 bits.
        bound: How far the contract allows the kernel to be from it, on the side of ``got``.
        lo: Smallest allowed value.
        hi: Largest allowed value.
        margin: abs(got - expected) / bound.
    """

    output: str
    index: tuple[int, ...]
    got: float
    got_hex: str
    expected: float
    expected_hex: str
    bound: float
    lo: float
    hi: float
    margin: float

    def __str__(self) -> str:
        got = f"{self.output}[{', '.join(map(str, self.index))}]: got {_number(self.got)}"
        if math.isnan(self.expected):
            return f"{got} ({self.got_hex}) where NaN is due"
        due = f"{_number(self.expected)} ({self.expected_hex})"
        if math.isnan(self.got):
            return f"{got} ({self.got_hex}) where a number is due, {due}"
        room = "exactly" if self.bound == 0 else f"+- {self.bound:.3g}"
        return f"{got} ({self.got_hex}), expected {due} {room}, margin {self.margin:.3g}"

    @property
    def allowed(self) -> str:
        """The range it may lie in; empty where that is one number, or NaN."""
        ends = self.lo, self.hi
        plain = not math.isnan(self.expected) and self.lo < self.hi
        return f"[{', '.join(map(_number, ends))}]" if plain else ""


@dataclass(frozen=True)
class Finding:
    """What one check says about one case.

    Attributes:
        check: Id of the check.
        case: Id of the case.
        verdict: The conclusion.
        margin: The worst one; NaN where nothing was measured.
        worst: The element it belongs to, if it belongs to one.
        judged: Number of values compared.
        open: Of these, how many the contract leaves undetermined (NaN or any number).
        reason: Why it is unsupported, an error or a failure, in words.
        expected: Why this verdict was expected, if an expectation said so; else empty.
        accuracy: How wrong the output is that the check is about, whatever the verdict.
        pattern: Where the failed elements lie and what they are, if it fails by elements.
        follows: Checks that fail on all of these elements in the plain answer, so that this failure
            says nothing new.
    """

    check: str
    case: str
    verdict: Verdict
    margin: float = math.nan
    worst: Element | None = None
    judged: int = 0
    open: int = 0
    reason: str = ""
    expected: str = ""
    accuracy: Accuracy | None = None
    pattern: Pattern | None = None
    follows: tuple[str, ...] = ()


# Which verdict a set of findings has: the first of these that occurs in it.
SEVERITY = (
    Verdict.FAILS,
    Verdict.ERROR,
    Verdict.TIMEOUT,
    Verdict.CONFORMS,
    Verdict.INDETERMINATE,
    Verdict.UNSUPPORTED,
)


def _number(value: float) -> str:
    """Nine digits, which tell float32 numbers apart."""
    return "NaN" if math.isnan(value) else f"{value:.9g}"
