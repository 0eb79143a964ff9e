"""Checks of outputs against their bands: every element within what the contract allows.

The verdict compares with the allowed ends, which are numbers of the output's format. The margin is
the distance from the reference over what is allowed on that side; it grows past 1 smoothly, and an
element outside never has a margin of 1 or less.

A backward of an online softmax is a call of its own, with O and LSE as they were returned. Where
these are in their bands, its gradients are judged as a function of them, which narrows what is
allowed. Contracts with a row maximum keep more of the forward than these two, and relations compare
with answers whose O and LSE may be others: both stay with what any forward may have returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dmverify.conformance.checks.heat import heat
from dmverify.conformance.checks.traits import describe
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.pattern import Pattern
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.errors import ContractError
from dmverify.spec.attention.run import STORED_IN_BF16
from dmverify.spec.case import F32, F64, beyond_bf16
from dmverify.spec.enclosure import Band
from dmverify.spec.formats import BF16

FORWARD, GRADIENTS = ("o", "lse"), ("dq", "dk", "dv")
FORMAT = "format"  # the check of formats
JUST_OUTSIDE = float(np.nextafter(1.0, 2.0))

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Judged:
    """Element by element: margin, and which the contract leaves undetermined."""

    margin: F64
    open: Flags


def band_check(check: str, evidence: Evidence) -> Finding:
    """Judges the output of the check's own name."""
    got = getattr(evidence.outputs, check)
    scale = evidence.case.problem.scale
    found = judge_band(check, evidence.case.id, got, band_of(evidence, check), scale=scale)
    if not got.size:
        return found
    wide = found.verdict is Verdict.FAILS and _only_wide(evidence, check)
    known = (FORMAT,) if wide else ()
    return replace(found, accuracy=evidence.accuracy(check), follows=known)


def _only_wide(evidence: Evidence, output: str) -> bool:
    """Whether an output would conform if it were stored in BF16, as it must be."""
    if output not in STORED_IN_BF16:
        return False
    got, failed = getattr(evidence.outputs, output), outside(evidence, output)
    with np.errstate(over="ignore", invalid="ignore"):
        stored = BF16.round(got, saturate=False)
    return bool(
        beyond_bf16(got)[failed].all()
        and (compare(stored, band_of(evidence, output)).margin <= 1).all()
    )


def judge_band(check: str, case: str, got: F32, band: Band, *, scale: float = 0.0) -> Finding:
    """The finding for one output tensor; the softmax scale helps to describe what failed."""
    judged = compare(got, band)
    count, undetermined = got.size, int(judged.open.sum())
    if not count:
        return Finding(check, case, Verdict.CONFORMS, 0.0)
    at = np.unravel_index(int(np.argmax(judged.margin)), got.shape)
    worst = element(check, got, band, tuple(int(i) for i in at), float(judged.margin[at]))
    failed = judged.margin > 1
    bad = int(failed.sum())
    if undetermined == count:
        reason = "undetermined: the contract leaves every element open"
        return Finding(
            check, case, Verdict.INDETERMINATE, judged=count, open=undetermined, reason=reason
        )
    return Finding(
        check,
        case,
        Verdict.FAILS if bad else Verdict.CONFORMS,
        margin=worst.margin,
        worst=worst,
        judged=count,
        open=undetermined,
        reason=f"{bad} of {count} elements outside their bound" if bad else "",
        pattern=_pattern(check, got, band, judged, scale) if bad else None,
    )


def _pattern(output: str, got: F32, band: Band, judged: Judged, scale: float) -> Pattern:
    found = describe(output, got, band, judged.margin > 1, scale=scale)
    return replace(found, heat=heat(output, judged.margin))


def band_of(evidence: Evidence, output: str) -> Band:
    """What an output of the plain answer may be."""
    plain = evidence.bands[output]
    if output not in GRADIENTS or evidence.contract.schedule.kind != "online":
        return plain
    if not set(FORWARD) <= set(evidence.outputs.names):
        return plain
    if any(outside(evidence, name).any() for name in FORWARD):
        return plain
    return evidence.bands_of_backward[output]


def outside(evidence: Evidence, output: str) -> Flags:
    """Which elements of an output are outside their band in the plain answer."""
    got = getattr(evidence.outputs, output)
    return np.asarray(compare(got, band_of(evidence, output)).margin > 1)


def follows(evidence: Evidence, failed: Mapping[str, Flags]) -> tuple[str, ...]:
    """The checks of outputs that fail on all of these elements, if there are such.

    Args:
        evidence: The plain answer.
        failed: By output, the elements that another check rejects.
    """
    some = {output: flags for output, flags in failed.items() if flags.any()}
    try:
        known = all((outside(evidence, output) | ~flags).all() for output, flags in some.items())
    except ContractError:  # no band says so
        return ()
    return tuple(some) if known else ()


def compare(got: F32, band: Band) -> Judged:
    """Margins of all elements; 0 where the contract leaves the element undetermined."""
    wide = got.astype(np.float64)
    may = band.may_nan & ~band.must_nan
    open_ = may & np.isposinf(band.hi)  # any number, too
    inside = (wide >= band.lo) & (wide <= band.hi)
    with np.errstate(all="ignore"):
        error = np.abs(wide - band.mid)
        bound = np.where(wide > band.mid, band.above, band.below)
        margin = np.where(error == 0, 0.0, error / bound)
    margin = np.where(wide == band.mid, 0.0, margin)  # infinities of the same sign
    margin = np.where(np.isnan(margin), np.inf, margin)
    margin = np.where(inside, np.minimum(margin, 1.0), np.maximum(margin, JUST_OUTSIDE))
    margin = np.where(open_ | (may & np.isnan(wide)), 0.0, margin)
    missing = np.where(np.isnan(wide), 0.0, np.inf)  # NaN is due
    return Judged(np.where(band.must_nan, missing, margin), open_)


def element(output: str, got: F32, band: Band, at: tuple[int, ...], margin: float) -> Element:
    """One element with its hex codes and its allowed range."""
    value, mid = float(got[at]), float(band.mid[at])
    side = band.above if value > mid else band.below
    expected = float("nan") if band.must_nan[at] else mid
    return Element(
        output=output,
        index=at,
        got=value,
        got_hex=hex_code(got[at]),
        expected=expected,
        expected_hex=hex_code(np.float32(expected)),
        bound=float(side[at]),
        lo=float(band.lo[at]),
        hi=float(band.hi[at]),
        margin=margin,
    )


def hex_code(value: np.float32) -> str:
    """BF16 code of a BF16 number, float32 code of any other."""
    bits = int(np.float32(value).view(np.uint32))
    return f"0x{bits:08x}" if bits & 0xFFFF else f"0x{bits >> 16:04x}"
