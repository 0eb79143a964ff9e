"""Identities: sums over the keys that an answer must have.

``sum-dv`` has a bound that needs no reference computation:

    sum_j dV_jc = sum_i dO^_ic (sum_j P^_ij),   sum_j P_ij = 1 on rows that see a key

P^ and dO^ are E4M3 casts, so with T_c = sum_i |dO_ic| over those rows

    |sum_j dV_jc - sum_i dO_ic| <= T_c (u8 + c + (1 + u8) (u8 + n c) + a) + s sum_j |dV_jc| + o

| symbol | is | value |
|---|---|---|
| u8 | half a step of a normal code, relative | 2^-4 |
| c | half a step of a subnormal code over the largest number of its block | 2^-10 / 448 |
| n c | P's subnormal codes, n keys a row, with room for a basis of its own | n 2^-17 |
| a | accumulation: tensor core windows and float32 sums | 2^-6 |
| s | BF16 store | 2^-8 |
| o | dO's subnormal codes: the block's largest number in each row | Nq group max abs(dO) c |

It is loose (a tenth of T_c) and catches what is gross: a factor, a lost tile, a group sum that is
overwritten. It costs nothing, so it holds for kernels and sizes that no enclosure covers.
Source: lemmas e4m3-error, e4m3-error-of-code, bf16-store, wgmma-order-free. Not covered: inputs
that are not finite or whose scales may leave the normal range; gradients stored in less than BF16.
A sum with a NaN is left open here: ``nan`` says whether one is due; so is an infinite sum of dK
where dS or dK may overflow.

``sum-dk``: sum_j dK_jc = scale sum_i (sum_j dS_ij) q_ic is 0 in exact attention. Its bound comes
from the row sums that the contract allows (``dmverify.spec.bounds.columns``, which says where it
is blind and where the intervals of dK imply it). ``columns`` takes the same sums line by line from
a dump (``dmverify.spec.bounds.column_ledger``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.conformance.checks.bands import outside
from dmverify.conformance.checks.hull import hull
from dmverify.conformance.checks.margins import Flags
from dmverify.conformance.checks.residuals import rows_outside
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.errors import ContractError
from dmverify.spec.attention.choices import choices_of
from dmverify.spec.attention.stores import WIDE, store_of
from dmverify.spec.bounds.column_ledger import LINES, columns
from dmverify.spec.bounds.columns import column_bound
from dmverify.spec.case import F64, Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E5M2, FP16
from dmverify.spec.ledger.bounds.derived import is_derived
from dmverify.spec.margin import margin_of

U8, SUBNORMAL, P_SUBNORMAL = 2.0**-4, 2.0**-10 / 448, 2.0**-17
ACCUMULATION, STORE = 2.0**-6, 2.0**-8
SAFE = (2.0**-40, 2.0**40)
LEAST_P_SCALE = 2**-10 / P_SUBNORMAL  # below it half a step of P's code is more
SUMMED = {"sum of dv": "dv", "sum of dk": "dk", "sum of dk, product": "dk"}
ROWS = "sum of dk, before"


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over tokens, (B, Hkv, D), and how far they may be from what is due.

    Attributes:
        what: What is added up, in words.
        got: The sums.
        due: What they should be.
        bound: How far they may be from it; infinite where nothing is known.
        without: Why nothing is known there.
    """

    what: str
    got: F64
    due: F64
    bound: F64
    without: str = ""


def dv_sum_check(check: str, evidence: Evidence) -> Finding:
    """The sum of dV over keys is that of dO over the rows that see a key."""
    case = evidence.case
    if reason := _not_covered(case) or _not_bf16(evidence) or _other_casts(evidence):
        return Finding(check, case.id, Verdict.UNSUPPORTED, reason=reason)
    due, bound = _due(case)
    dv = evidence.outputs.dv.astype(np.float64)
    with np.errstate(invalid="ignore"):
        got = dv.sum(axis=1)
        bound = bound + STORE * np.abs(dv).sum(axis=1)
    return _judged(check, evidence, Sums("sum of dv", got, due, bound))


def dk_sum_check(check: str, evidence: Evidence) -> Finding:
    """The sum of dK over keys is what the rows of dS may leave."""
    case = evidence.case
    if reason := _not_bounded(evidence):
        return Finding(check, case.id, Verdict.UNSUPPORTED, reason=reason)
    bound = column_bound(evidence.contract, case.problem, case.inputs)
    dk = evidence.outputs.dk.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        got, most = dk.sum(axis=1), bound.with_store(dk)
    if _may_overflow(evidence.contract):
        got = np.where(np.isinf(got), np.nan, got)
    return _judged(check, evidence, Sums("sum of dk", got, np.zeros_like(got), most, bound.reason))


def columns_check(check: str, evidence: Evidence) -> Finding:
    """The sums of dK line by line: the rows of dS, their cast, the product."""
    case, internals = evidence.case, evidence.internals
    assert internals is not None
    if reason := _not_bounded(evidence):
        return Finding(check, case.id, Verdict.UNSUPPORTED, reason=reason)
    with np.errstate(all="ignore"):
        book = columns(
            case.problem,
            inputs=case.inputs,
            internals=internals,
            outputs=evidence.outputs,
            book=evidence.ledger,
        )
    found = [
        _judged(
            check,
            evidence,
            Sums(
                f"sum of dk, {name}",
                np.where(book.defined, book.values[name], np.nan),
                np.zeros_like(book.values[name]),
                book.bounds[name],
                book.reason,
            ),
        )
        for name in LINES
    ]
    return max(found, key=lambda finding: finding.margin)


def _judged(check: str, evidence: Evidence, sums: Sums) -> Finding:
    """The finding; a NaN is left open, and what has no bound."""
    case = evidence.case
    what, got, due, bound = sums.what, sums.got, sums.due, sums.bound
    unbounded = np.isinf(bound) & np.isfinite(got)
    left_open = np.isnan(got) | unbounded
    margin = margin_of(got - due, bound)
    margin[left_open] = 0.0
    if not margin.size:
        return Finding(check, case.id, Verdict.CONFORMS, 0.0)
    at = np.unravel_index(int(np.argmax(margin)), margin.shape)
    failed = margin > 1
    bad, lost = int(failed.sum()), int(unbounded.sum())
    reason = f"{bad} of {margin.size} sums outside their bound: {what}" if bad else ""
    if lost and not bad:
        reason = f"{what}: {lost} of {margin.size} sums without a bound: {sums.without}"
    return Finding(
        check,
        case.id,
        Verdict.FAILS if bad else Verdict.CONFORMS,
        margin=float(margin[at]),
        worst=Element(
            output=what,
            index=tuple(int(i) for i in at),
            got=float(got[at]),
            got_hex=float(got[at]).hex(),
            expected=float(due[at]),
            expected_hex=float(due[at]).hex(),
            bound=float(bound[at]),
            lo=float(due[at] - bound[at]),
            hi=float(due[at] + bound[at]),
            margin=float(margin[at]),
        ),
        judged=margin.size,
        open=int(left_open.sum()),
        reason=reason,
        pattern=hull(what, failed) if bad else None,
        follows=_follows(evidence, what, failed) if bad else (),
    )


def _follows(evidence: Evidence, what: str, failed: Flags) -> tuple[str, ...]:
    """The check of what is added up, if each of these sums adds up an element that fails it."""
    if what == ROWS:
        problem = evidence.case.problem
        rows = rows_outside("row-sum", evidence)
        grouped = rows.reshape(problem.batch, problem.kv_heads, -1)
        wrong: Flags = np.asarray(grouped.any(axis=2, keepdims=True))
        return () if (failed & ~wrong).any() else ("row-sum",)
    if what not in SUMMED:
        return ()
    try:
        wrong = np.asarray(outside(evidence, SUMMED[what]).any(axis=1))
    except ContractError:  # no band says so
        return ()
    return () if (failed & ~wrong).any() else (SUMMED[what],)


def _due(case: Case) -> tuple[F64, F64]:
    """Sum of dO and the bound without the store, (B, Hkv, D)."""
    problem = case.problem
    do = case.inputs.do.astype(np.float64)[:, problem.mask().any(axis=1)]
    grouped = do.reshape(*do.shape[:2], problem.kv_heads, problem.group, do.shape[-1])
    size = np.abs(grouped)
    largest = size.max(initial=0.0)
    relative = U8 + SUBNORMAL + (1 + U8) * (U8 + problem.keys * P_SUBNORMAL) + ACCUMULATION
    tail = problem.queries * problem.group * largest * SUBNORMAL * (1 + 2 * U8)
    return grouped.sum(axis=(1, 3)), size.sum(axis=(1, 3)) * relative + tail


def _may_overflow(contract: Contract) -> bool:
    """Whether finite operands may give an infinite dK: dS in E5M2 without saturation, dK in FP16.

    ``dk`` says where infinity is due.
    """
    beyond = choices_of(contract).ds_format is E5M2 and not contract.saturate
    return beyond or store_of(contract, "dk").fmt is FP16


def _not_bf16(evidence: Evidence) -> str:
    return "" if evidence.contract.store in WIDE else "dV is stored in less than BF16"


def _other_casts(evidence: Evidence) -> str:
    """Whether the casts of dO or P err by more than the bound allows, in words; empty if not."""
    contract = evidence.contract
    scale = getattr(contract.schedule, "p_scale", None)
    if contract.do_format not in ("e4m3", "bf16") or contract.operand_rule == "unit":
        return "dO is no E4M3 with a scale of its block"
    return "" if scale is None or scale >= LEAST_P_SCALE else f"P codes are {scale} P alone"


def _not_bounded(evidence: Evidence) -> str:
    for name, array in evidence.case.inputs.items():
        if not np.isfinite(array).all():
            return f"{name} is not finite"
    if not is_derived(evidence.contract):
        return f"row sums have no bound for the contract {evidence.contract.name}"
    return ""


def _not_covered(case: Case) -> str:
    for name, array in case.inputs.items():
        size = np.abs(array)
        if not np.isfinite(array).all():
            return f"{name} is not finite"
        if ((size > 0) & ((size < SAFE[0]) | (size > SAFE[1]))).any():
            return f"{name} holds numbers whose scales may leave the normal range"
    return ""
