"""Identities: sums that an answer must have, with a bound that needs no reference computation.

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
A sum with a NaN is left open here: ``nan`` says whether one is due.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.spec.case import Case

U8, SUBNORMAL, P_SUBNORMAL = 2.0**-4, 2.0**-10 / 448, 2.0**-17
ACCUMULATION, STORE = 2.0**-6, 2.0**-8
SAFE = (2.0**-40, 2.0**40)


def dv_sum_check(check: str, evidence: Evidence) -> Finding:
    """The sum of dV over keys is that of dO over the rows that see a key."""
    case = evidence.case
    if reason := _not_covered(case) or _not_bf16(evidence):
        return Finding(check, case.id, Verdict.UNSUPPORTED, reason=reason)
    due, bound = _due(case)
    dv = evidence.outputs.dv.astype(np.float64)
    with np.errstate(invalid="ignore"):
        got = dv.sum(axis=1)
        bound = bound + STORE * np.abs(dv).sum(axis=1)
        error = np.abs(got - due)
    bounded = (bound > 0) & np.isfinite(bound)  # an infinite sum has an infinite bound of its store
    margin = np.divide(error, bound, out=np.full_like(error, np.inf), where=bounded)
    undefined = np.isnan(got)
    margin = np.where((error == 0) | undefined, 0.0, margin)
    if not margin.size:
        return Finding(check, case.id, Verdict.CONFORMS, 0.0)
    at = np.unravel_index(int(np.argmax(margin)), margin.shape)
    bad = int((margin > 1).sum())
    return Finding(
        check,
        case.id,
        Verdict.DOES_NOT if bad else Verdict.CONFORMS,
        margin=float(margin[at]),
        worst=Element(
            output="sum of dv",
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
        open=int(undefined.sum()),
        reason=f"{bad} of {margin.size} sums of dV outside their bound" if bad else "",
    )


def _due(case: Case) -> tuple[np.typing.NDArray[np.float64], np.typing.NDArray[np.float64]]:
    """Sum of dO and the bound without the store, (B, Hkv, D)."""
    problem = case.problem
    do = case.inputs.do.astype(np.float64)[:, problem.mask().any(axis=1)]
    grouped = do.reshape(*do.shape[:2], problem.kv_heads, problem.group, do.shape[-1])
    size = np.abs(grouped)
    largest = size.max(initial=0.0)
    relative = U8 + SUBNORMAL + (1 + U8) * (U8 + problem.keys * P_SUBNORMAL) + ACCUMULATION
    tail = problem.queries * problem.group * largest * SUBNORMAL * (1 + 2 * U8)
    return grouped.sum(axis=(1, 3)), size.sum(axis=(1, 3)) * relative + tail


def _not_bf16(evidence: Evidence) -> str:
    return "" if evidence.contract.store == "bf16" else "dV is stored in less than BF16"


def _not_covered(case: Case) -> str:
    for name, array in case.inputs.items():
        size = np.abs(array)
        if not np.isfinite(array).all():
            return f"{name} is not finite"
        if ((size > 0) & ((size < SAFE[0]) | (size > SAFE[1]))).any():
            return f"{name} holds numbers whose scales may leave the normal range"
    return ""
