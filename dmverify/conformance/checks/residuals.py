"""Checks of the residual, for kernels that show their inside.

The row sum R of dS before the cast is zero up to the terms of the ledger. The checks compare
the sum, before and after the cast, with the sum of its terms' bounds, and each term with its own
bound. That the terms add up to R is an identity of the ledger, which no kernel can break: where it
fails the ledger is wrong, an ``error``. ``dump`` ties the dump to the outputs.

A row whose dump is not finite has no residual. It is excused only where an output of that row is
not finite either, or where an input's NaN or infinity explains it; else a NaN would hide any fault.

A row whose bound is infinite, since a premise of its lemmas fails, is open: it conforms, and the
finding says of how many rows and why.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dmverify.conformance.checks.bands import follows
from dmverify.conformance.checks.hull import hull
from dmverify.conformance.checks.margins import Flags, hex_code
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.spec.attention.stores import store_of
from dmverify.spec.case import F64
from dmverify.spec.ledger import Ledger
from dmverify.spec.margin import margin_of

CAST = "cast"
OPERANDS = ("q", "do")
PAIR, CHANNEL, ROW = (
    ("weights", "p", "dp", "ds", "ds_cast"),
    ("q", "do", "o32"),
    ("norm", "shift", "delta"),
)


def row_sum_check(check: str, evidence: Evidence) -> Finding:
    """|R| of every row within the sum of its terms' bounds."""
    book = evidence.ledger
    return _rows(check, evidence, book.residual, book.terms, "row sum of dS")


def cast_row_sum_check(check: str, evidence: Evidence) -> Finding:
    """|R + cast| of every row within the sum of the bounds, the cast's among them."""
    book = evidence.ledger
    after = book.residual + book.values[CAST]
    return _rows(check, evidence, after, book.names, "row sum of cast dS")


def terms_check(check: str, evidence: Evidence) -> Finding:
    """Every term of every row within its own bound."""
    book = evidence.ledger
    findings = [
        _rows(check, evidence, book.values[name], (name,), f"term {name}") for name in book.names
    ]
    worst = max(findings, key=lambda finding: finding.margin)
    if worst.reason:
        return worst
    open_most = max(findings, key=lambda finding: finding.open)  # the first of equals
    return replace(worst, open=open_most.open, reason=open_most.reason)


def dump_check(check: str, evidence: Evidence) -> Finding:
    """The dump is of this run: O is O32 as it is stored, the returned delta the dump's."""
    internals, outputs = evidence.internals, evidence.outputs
    assert internals is not None
    with np.errstate(over="ignore"):
        stored = store_of(evidence.contract, "o").numbers(internals.o32)
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
                check,
                evidence.case.id,
                Verdict.FAILS,
                np.inf,
                judged=judged,
                reason=reason,
                pattern=hull(name, other),
                follows=follows(evidence, {name: other}),
            )
    return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0, judged=judged)


def _added(bounds: list[F64], rows: int) -> F64:
    """Sum rounded up."""
    total = np.zeros(rows)
    for bound in bounds:
        total = np.nextafter(total + bound, np.inf)
    return total


def _rows(check: str, evidence: Evidence, value: F64, terms: tuple[str, ...], what: str) -> Finding:
    """Values of rows against the sum of these terms' bounds."""
    book = evidence.ledger
    bound = _added([book.bounds[name] for name in terms], len(book.at))
    if not value.size:
        return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0)
    if not book.closes.all():
        reason = "the ledger's terms do not add up to R: a fault of the ledger, not of the kernel"
        return Finding(check, evidence.case.id, Verdict.ERROR, reason=reason)
    hidden = int(_hidden(evidence).sum())
    if hidden:
        return Finding(
            check,
            evidence.case.id,
            Verdict.FAILS,
            np.inf,
            judged=value.size,
            open=int((~book.defined).sum()),
            reason=f"the dump is not finite where the outputs are, in {hidden} rows",
        )
    margin = margin_of(value, bound)
    i = int(np.argmax(margin))
    failed = _flags(evidence, book.at[margin > 1])
    bad = int(failed.sum())
    at = tuple(int(x) for x in book.at[i])
    worst = _element(what, at, float(value[i]), float(bound[i]), float(margin[i]))
    unbounded = book.defined & np.isinf(bound)
    return Finding(
        check,
        evidence.case.id,
        Verdict.FAILS if bad else Verdict.CONFORMS,
        margin=worst.margin,
        worst=worst,
        judged=value.size,
        open=int((~book.defined | unbounded).sum()),
        reason=(
            f"{what}: {bad} of {value.size} rows outside"
            if bad
            else _without_bound(book, terms, unbounded, what)
        ),
        pattern=hull("row", failed) if bad else None,
        follows=_follows(check, evidence, failed) if bad else (),
    )


def _flags(evidence: Evidence, rows: npt.NDArray[np.int64]) -> Flags:
    """Rows as (B, H, Nq)."""
    assert evidence.internals is not None
    flags = np.zeros(evidence.internals.delta.shape, dtype=bool)
    flags[tuple(rows.T)] = True
    return flags


def _follows(check: str, evidence: Evidence, failed: Flags) -> tuple[str, ...]:
    """Delta's check if delta is wrong in all of these rows; of the cast's sum also the sum's."""
    if evidence.outputs.delta is not None and (found := follows(evidence, {"delta": failed})):
        return found
    before = {"row-sum-cast": ("row-sum",), "ledger": ("row-sum", "row-sum-cast")}.get(check, ())
    fails = (name for name in before if not (failed & ~rows_outside(name, evidence)).any())
    return tuple(fails)[:1]


def rows_outside(check: str, evidence: Evidence) -> Flags:
    """The rows of dS, (B, H, Nq), that a check of row sums rejects."""
    book = evidence.ledger
    cast = check == "row-sum-cast"
    value = book.residual + book.values[CAST] if cast else book.residual
    names = book.names if cast else book.terms
    bound = _added([book.bounds[name] for name in names], len(book.at))
    return _flags(evidence, book.at[margin_of(value, bound) > 1])


def _without_bound(
    book: Ledger, terms: tuple[str, ...], unbounded: npt.NDArray[np.bool_], what: str
) -> str:
    """How many rows have no bound, and why; empty where every row has one."""
    if not unbounded.any():
        return ""
    first = int(unbounded.argmax())
    why = next(reason for name in terms if (reason := book.reasons(name)[first]))
    return f"{what}: {int(unbounded.sum())} of {unbounded.size} rows without a bound: {why}"


def _hidden(evidence: Evidence) -> npt.NDArray[np.bool_]:
    """Rows of finite outputs with a dump that is not finite and no reason to be, (B, H, Nq)."""
    internals, outputs = evidence.internals, evidence.outputs
    assert internals is not None
    finite_in = all(np.isfinite(x).all() for _, x in evidence.case.inputs.items())
    skip = np.zeros(internals.p.shape[-2:], dtype=bool)
    if not finite_in:  # a dense kernel meets a hidden NaN and drops the product
        skip = ~evidence.case.problem.mask()
    broken = np.zeros(internals.delta.shape, dtype=bool)
    for name in PAIR:
        broken |= ~(np.isfinite(getattr(internals, name)) | skip).all(axis=-1)
    blind = skip.all(axis=-1)  # a query that sees no key: its block's NaN stays with it
    for name in CHANNEL:
        bad = ~np.isfinite(getattr(internals, name)).all(axis=-1)
        broken |= bad & ~blind if name in OPERANDS else bad
    for name in ROW:
        broken |= ~np.isfinite(getattr(internals, name))
    if finite_in:
        broken |= not all(np.isfinite(x).all() for x in (internals.k, internals.v))
    answered = [
        np.all(np.isfinite(x), axis=-1, keepdims=True)[..., 0].swapaxes(1, 2)
        for x in (outputs.o, outputs.dq)
    ]
    if outputs.delta is not None:
        answered.append(np.isfinite(outputs.delta))
    return np.asarray(broken & np.logical_and.reduce(answered))


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
