"""Checks of the residual, for kernels that show their inside.

The row sum R of dS before the cast is zero up to the terms of the ledger. Three checks: the sum
against the sum of its terms' bounds, each term against its own bound, and the bookkeeping identity,
which holds for any kernel whose dump is complete. ``dump`` ties the dump to the outputs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.checks.bands import hex_code
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.spec.case import F64
from dmverify.spec.formats import BF16

CAST = "cast"


def row_sum_check(check: str, evidence: Evidence) -> Finding:
    """|R| of every row within the sum of its terms' bounds."""
    book = evidence.ledger
    bound = _added([book.bounds[name] for name in book.terms], len(book.at))
    return _rows(check, evidence, book.residual, bound, "row sum of dS")


def cast_row_sum_check(check: str, evidence: Evidence) -> Finding:
    """|R + cast| of every row within the sum of the bounds, the cast's among them."""
    book = evidence.ledger
    bound = _added([book.bounds[name] for name in book.names], len(book.at))
    return _rows(check, evidence, book.residual + book.values[CAST], bound, "row sum of cast dS")


def terms_check(check: str, evidence: Evidence) -> Finding:
    """Every term of every row within its own bound."""
    book = evidence.ledger
    findings = [
        _rows(check, evidence, book.values[name], book.bounds[name], f"term {name}")
        for name in book.names
    ]
    return max(findings, key=lambda finding: finding.margin)


def identity_check(check: str, evidence: Evidence) -> Finding:
    """R equals the sum of its terms, exactly, in every row."""
    book = evidence.ledger
    wrong = int((~book.closes).sum())
    if not wrong:
        return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0, judged=len(book.at))
    reason = f"{wrong} of {len(book.at)} rows do not add up to their terms"
    return Finding(
        check, evidence.case.id, Verdict.DOES_NOT, np.inf, judged=len(book.at), reason=reason
    )


def dump_check(check: str, evidence: Evidence) -> Finding:
    """The dump is of this run: stored O is BF16(O32), the returned delta the dump's."""
    internals, outputs = evidence.internals, evidence.outputs
    assert internals is not None
    with np.errstate(over="ignore"):
        stored = BF16.round(internals.o32.astype(np.float32), saturate=False)
    pairs = [("o", stored.swapaxes(1, 2), outputs.o)]
    if outputs.delta is not None:
        dumped = (internals.shift + internals.delta).astype(np.float32)
        pairs.append(("delta", dumped, outputs.delta))
    judged = sum(array.size for _, _, array in pairs)
    for name, dumped, array in pairs:
        other = (dumped != array) & ~(np.isnan(dumped) & np.isnan(array))
        if other.any():
            at = tuple(int(i) for i in np.argwhere(other)[0])
            reason = f"{name}{list(at)} = {hex_code(array[at])}, the dump {hex_code(dumped[at])}"
            return Finding(
                check, evidence.case.id, Verdict.DOES_NOT, np.inf, judged=judged, reason=reason
            )
    return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0, judged=judged)


def _added(bounds: list[F64], rows: int) -> F64:
    """Sum rounded up."""
    total = np.zeros(rows)
    for bound in bounds:
        total = np.nextafter(total + bound, np.inf)
    return total


def _rows(check: str, evidence: Evidence, value: F64, bound: F64, what: str) -> Finding:
    book = evidence.ledger
    if not value.size:
        return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0)
    margin = _margin(value, bound)
    i = int(np.argmax(margin))
    bad = int((margin > 1).sum())
    at = tuple(int(x) for x in book.at[i])
    worst = _element(what, at, float(value[i]), float(bound[i]), float(margin[i]))
    return Finding(
        check,
        evidence.case.id,
        Verdict.DOES_NOT if bad else Verdict.CONFORMS,
        margin=worst.margin,
        worst=worst,
        judged=value.size,
        open=int((~book.defined).sum()),
        reason=f"{what}: {bad} of {value.size} rows outside" if bad else "",
    )


def _margin(value: F64, bound: F64) -> npt.NDArray[np.float64]:
    size = np.abs(value)
    margin = np.divide(size, bound, out=np.full_like(size, np.inf), where=bound > 0)
    return np.where(size == 0, 0.0, margin)


def _element(what: str, at: tuple[int, ...], value: float, bound: float, margin: float) -> Element:
    return Element(
        output=what,
        index=at,
        got=value,
        got_hex=value.hex(),
        expected=0.0,
        expected_hex="0",
        bound=bound,
        lo=-bound,
        hi=bound,
        margin=margin,
    )
