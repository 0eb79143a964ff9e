"""The measures of one run, as the article takes them.

| measure | definition |
|---|---|
| residual | median over rows and heads of |sum_j dS| / sum_j |dS|, sums in float64; 0/0 is 0 |
| residual_max | the largest of these |
| residual_cast | the median after the cast of dS |
| colsum | sum over channels of |sum_j dK_jc|, relative to the sum of all |dK_jc| |
| colsum_median | median over channels and heads of |sum_j dK_jc| / sum_j |dK_jc| |
| o_error | ||O - O_ref|| / ||O_ref||, Frobenius over all heads; O_ref: float64, BF16 inputs |
| dq_error | the same of dQ |
| flushed | share of rows that the cast leaves all 0, of those with a dS other than 0 |
| undefined | share of rows that hold a NaN in O, dS or its cast |

dK of the column sums is dS^T Q^ before the cast, an fp32 product as in the article, summed in
float64. The article says "key column sums relative to total absolute size": ``colsum`` reproduces
its range; the median over channels lies 10 to 15 % below. Rows with a NaN in O are left out of
o_error, rows with one in dS or its cast out of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dmverify.spec.attention import Interpretation
from dmverify.spec.case import F64, Internals

Bool = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Measures:
    """The table above for one run; NaN where no row is defined."""

    residual: float
    residual_max: float
    residual_cast: float
    colsum: float
    colsum_median: float
    o_error: float
    dq_error: float
    flushed: float
    undefined: float


MEASURES = tuple(field.name for field in fields(Measures))


def measure(run: Interpretation, reference: Interpretation) -> Measures:
    """Takes every measure.

    Args:
        run: With internals.
        reference: Float64 attention on the same inputs.

    Raises:
        ValueError: If the run was made without internals.
    """
    inside = run.internals
    if inside is None:
        raise ValueError("measures need a run with internals=True")
    whole = _finite(np.swapaxes(run.outputs.o, 1, 2))
    defined = _finite(inside.ds) & _finite(inside.ds_cast)
    before = row_ratios(inside.ds, defined)
    sums, sizes = _column_sums(inside, defined)
    return Measures(
        residual=_median(before),
        residual_max=float(before.max(initial=0.0)),
        residual_cast=_median(row_ratios(inside.ds_cast, defined)),
        colsum=float(sums.sum() / sizes.sum()),
        colsum_median=_median((sums / np.where(sizes == 0, 1.0, sizes)).ravel()),
        o_error=_distance(run, reference, "o", whole),
        dq_error=_distance(run, reference, "dq", defined),
        flushed=_flushed(inside, defined),
        undefined=float(1 - (whole & defined).mean()),
    )


def row_ratios(ds: F64, rows: Bool) -> F64:
    """|row sum| / sum of magnitudes of the chosen rows of (B, H, Nq, Nk): (L,); 0/0 is 0."""
    chosen = ds[rows]
    size = np.abs(chosen).sum(axis=-1)
    return np.asarray(np.abs(chosen.sum(axis=-1)) / np.where(size == 0, 1.0, size))


def _column_sums(inside: Internals, rows: Bool) -> tuple[F64, F64]:
    """|sum_j dK| and sum_j |dK| of each channel, (H * B, D) both, from an fp32 product a head."""
    pairs = [
        _sums_of(np.where(keep[:, None], ds, 0.0), q)
        for ds, q, keep in zip(_heads(inside.ds), _heads(inside.q), _heads(rows), strict=True)
    ]
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


def _sums_of(ds: F64, q: F64) -> tuple[F64, F64]:
    dk = (ds.astype(np.float32).T @ q.astype(np.float32)).astype(np.float64)
    return np.abs(dk.sum(axis=0)), np.abs(dk).sum(axis=0)


def _heads(x: npt.NDArray[T]) -> Iterator[npt.NDArray[T]]:
    """(B, H, ...) head by head."""
    return iter(x.reshape(-1, *x.shape[2:]))


def _distance(run: Interpretation, reference: Interpretation, name: str, rows: Bool) -> float:
    """Relative Frobenius distance over the chosen (B, H, Nq) rows."""
    # The article's O error is that of the stored BF16 output; its dQ is compared before a store.
    got_all = run.outputs.o.astype(np.float64) if name == "o" else run.values[name]
    got, want = (np.swapaxes(x, 1, 2)[rows] for x in (got_all, reference.values[name]))
    size = float(np.linalg.norm(want))
    return float(np.linalg.norm(got - want)) / size if size else np.nan


def _flushed(inside: Internals, rows: Bool) -> float:
    before, after = ((x[rows] != 0).any(axis=-1) for x in (inside.ds, inside.ds_cast))
    return float((before & ~after).sum() / max(before.sum(), 1))


def _finite(x: F64) -> Bool:
    return np.asarray(np.isfinite(x).all(axis=-1))


def _median(x: F64) -> float:
    return float(np.median(x)) if x.size else np.nan
