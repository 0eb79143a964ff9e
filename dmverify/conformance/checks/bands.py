"""Checks of outputs against their bands: every element within what the contract allows.

A backward of an online softmax is a call of its own, with O and LSE as they were returned. Where
these are in their bands, its gradients are judged as a function of them, which narrows what is
allowed. Contracts with a row maximum keep more of the forward than these two, and relations compare
with answers whose O and LSE may be others: both stay with what any forward may have returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dmverify.conformance.checks.heat import heat
from dmverify.conformance.checks.judgement import (
    GRADIENTS,
    Judgement,
    accuracy_of,
    judgement_of,
    narrows,
)
from dmverify.conformance.checks.lost_key import lost_key
from dmverify.conformance.checks.margins import Flags, compare
from dmverify.conformance.checks.traits import describe
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.pattern import Pattern
from dmverify.conformance.references import WHOLE
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import ContractError
from dmverify.spec.attention.stores import Store, store_of
from dmverify.spec.case import F32, beyond_bf16
from dmverify.spec.enclosure import Band
from dmverify.spec.formats import BF16, FP32

FORMAT = "format"  # the check of formats
LSE = "lse"


def band_check(check: str, evidence: Evidence) -> Finding:
    """Judges the output of the check's own name."""
    judgement = judgement_of(evidence, check)
    scale = evidence.case.problem.scale
    got = getattr(evidence.outputs, check)

    def pattern() -> Pattern:
        band = band_of(evidence, check)
        own = _pattern(check, got, band, scale)
        lost = (
            lost_key(evidence.case, got, band, outside(evidence, check)) if check == LSE else None
        )
        return own if lost is None else replace(own, traits=(*own.traits, lost))

    found = _finding(check, evidence.case.id, judgement, pattern)
    if not got.size:
        return found
    wide = found.verdict is Verdict.FAILS and _only_wide(evidence, check)
    known = (FORMAT,) if wide else ()
    return replace(found, accuracy=accuracy_of(evidence, check), follows=known)


def _only_wide(evidence: Evidence, output: str) -> bool:
    """Whether an output would conform if it were stored in the format that it must be in."""
    store = store_of(evidence.contract, output)
    if store.fmt is FP32:
        return False
    got, failed = getattr(evidence.outputs, output), outside(evidence, output)
    with np.errstate(over="ignore", invalid="ignore"):
        stored = BF16.round(got, saturate=False) if store.by_caller else store.numbers(got)
    return bool(
        beyond_store(store, got)[failed].all()
        and (compare(stored, band_of(evidence, output)).margin <= 1).all()
    )


def beyond_store(store: Store, array: F32) -> Flags:
    """Where numbers are not of the format that they are stored in, in the array's shape.

    Those that a caller scaled are told by their bits alone, which BF16 holds.
    """
    if store.fmt is BF16 or store.by_caller:
        return np.asarray(beyond_bf16(array) & ~np.isnan(array))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((store.numbers(array) != array) & ~np.isnan(array))


def judge_band(check: str, case: str, got: F32, band: Band, *, scale: float = 0.0) -> Finding:
    """The finding for one output tensor; the softmax scale helps to describe what failed."""
    judgement = Judgement(check, got)
    judgement.take(WHOLE, band)
    return _finding(check, case, judgement, lambda: _pattern(check, got, band, scale))


def _finding(
    check: str, case: str, judgement: Judgement, pattern: Callable[[], Pattern]
) -> Finding:
    count, worst = judgement.failed.size, judgement.worst
    if worst is None:  # nothing was returned, and nothing due
        return Finding(check, case, Verdict.CONFORMS, 0.0)
    if judgement.open == count:
        reason = "undetermined: the contract leaves every element open"
        return Finding(check, case, Verdict.INDETERMINATE, judged=count, open=count, reason=reason)
    bad = int(judgement.failed.sum())
    return Finding(
        check,
        case,
        Verdict.FAILS if bad else Verdict.CONFORMS,
        margin=worst.margin,
        worst=worst,
        judged=count,
        open=judgement.open,
        reason=f"{bad} of {count} elements outside their bound" if bad else "",
        pattern=pattern() if bad else None,
    )


def _pattern(output: str, got: F32, band: Band, scale: float) -> Pattern:
    margin = compare(got, band).margin
    found = describe(output, got, band, margin > 1, scale=scale)
    return replace(found, heat=heat(output, margin))


def band_of(evidence: Evidence, output: str) -> Band:
    """What an output of the plain answer may be, all of it at once."""
    narrowed = output in GRADIENTS and narrows(evidence)
    return (evidence.bands_of_backward if narrowed else evidence.bands)[output]


def outside(evidence: Evidence, output: str) -> Flags:
    """Which elements of an output are outside their band in the plain answer."""
    return judgement_of(evidence, output).failed


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
