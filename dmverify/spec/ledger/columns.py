"""The sums of dK over its keys as ledger lines, from what a kernel shows of its inside.

    sum_j dK_jc  =  before + cast + product        of each batch, key head and channel
    before       =  scale sum_i R_i q_ic           R_i the row sums of dS of the group's heads
    cast         =  scale sum_i cast_i q_ic        what the cast of dS adds to them
    product      =  what is left: accumulation and store of dK

``before`` and ``cast`` are bounded by the row bounds of the ledger, times |q_ic|; ``product`` by
the tensor core or float32, and half a BF16 unit of each dK_jc. So ``product`` ties the dK that was
returned to the dS that was shown, which no row sum does. Blind: a dK whose keys are exchanged, and
channels where Q is 0. Evaluated in float64, whose own error is part of each bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.spec.bounds.columns import product_bound, store_bound
from dmverify.spec.bounds.errors import Errors
from dmverify.spec.bounds.norms import measure
from dmverify.spec.bounds.premises import PREMISES
from dmverify.spec.case import F64, Inputs, Internals, Outputs
from dmverify.spec.ledger.bounds.constants import TWO_U64
from dmverify.spec.ledger.ledger import CAST, Ledger
from dmverify.spec.lemmas import rests_on
from dmverify.spec.premises import failing
from dmverify.spec.problem import Problem

LINES = ("before", "cast", "product")


@dataclass(frozen=True, eq=False)
class Columns:
    """Sums of dK over the keys, line by line; arrays (B, Hkv, D).

    Attributes:
        values: Of each of ``LINES``; 0 where a row of the head is not defined.
        bounds: Upper bounds; infinite where a premise fails.
        defined: False where a row, or dK itself, holds a NaN or an infinity.
        reason: Which premise fails, of the first that does; empty if none.
    """

    values: dict[str, F64]
    bounds: dict[str, F64]
    defined: npt.NDArray[np.bool_]
    reason: str


@rests_on("column-sum")
def columns(
    problem: Problem, *, inputs: Inputs, internals: Internals, outputs: Outputs, book: Ledger
) -> Columns:
    """The lines of every column, from a ledger of the same run.

    Args:
        problem: Sizes, mask, scale.
        inputs: Finite BF16 tensors.
        internals: What happened inside; ``q`` and ``ds_cast`` are read.
        outputs: What was returned; ``dk`` is read.
        book: The ledger of these rows.
    """
    errors = Errors(book.contract, problem, measure(book.contract, problem, inputs), "operands")
    failed = failing(PREMISES, errors)
    q = _signed(problem, inputs, internals)
    sums = {"before": book.residual, "cast": book.values[CAST]}
    limits = {"before": _added(book, book.terms), "cast": _added(book, (CAST,))}
    values = {name: _over_rows(problem, rows, q) for name, rows in sums.items()}
    bounds = {name: _over_rows(problem, rows, np.abs(q)) for name, rows in limits.items()}
    sizes = np.abs(internals.ds_cast).sum(axis=3)
    whole = _over_rows(problem, sizes.reshape(-1), np.abs(q))
    dk = outputs.dk.astype(np.float64)
    values["product"] = dk.sum(axis=1) - values["before"] - values["cast"]
    bounds["product"] = _product(errors, sizes, q) + store_bound(dk)
    own = (problem.queries * problem.group + problem.keys) * 2 * TWO_U64
    slack = own * (whole + np.abs(dk).sum(axis=1))
    unmet = np.inf if failed else 0.0
    whole_rows = np.asarray(_grouped(problem, book.defined).all(axis=(2, 3)))
    defined = whole_rows[..., None] & np.isfinite(values["product"])
    return Columns(
        values={name: np.where(defined, x, 0.0) for name, x in values.items()},
        bounds={name: np.where(defined, x + slack + unmet, 0.0) for name, x in bounds.items()},
        defined=defined,
        reason=failed[0][0].reason if failed else _first_reason(book),
    )


def _signed(problem: Problem, inputs: Inputs, internals: Internals) -> F64:
    """Q^ with the sign that dK takes it with, (B, H, Nq, D)."""
    signed = np.copysign(internals.q, inputs.q.swapaxes(1, 2))
    signed *= np.sign(problem.scale)
    return np.asarray(signed)


def _added(book: Ledger, terms: tuple[str, ...]) -> F64:
    """Sum of bounds of rows, rounded up."""
    return np.asarray(np.sum([book.bounds[n] for n in terms], axis=0) * (1 + len(terms) * TWO_U64))


def _grouped(problem: Problem, rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Rows of a ledger as (B, Hkv, group, Nq)."""
    return rows.reshape(problem.batch, problem.kv_heads, problem.group, problem.queries)


def _over_rows(problem: Problem, rows: F64, q: F64) -> F64:
    """scale sum_i rows_i q_ic over the rows of a key head's query heads, (B, Hkv, D)."""
    shape = (problem.batch, problem.kv_heads, problem.group, *q.shape[2:])
    weighted = np.where(q.reshape(shape) == 0, 0.0, _grouped(problem, rows)[..., None])
    weighted *= q.reshape(shape)
    return np.asarray(abs(problem.scale) * weighted.sum(axis=(2, 3)))


def _product(errors: Errors, sizes: F64, q: F64) -> F64:
    """What accumulation may add, (B, Hkv, D)."""
    problem = errors.problem
    added = abs(problem.scale) * product_bound(errors, sizes, np.abs(q))
    shape = (problem.batch, problem.kv_heads, problem.group, problem.head_dim)
    return np.asarray(added.reshape(shape).sum(axis=2))


def _first_reason(book: Ledger) -> str:
    """Why a row's bound is infinite, of the first that is."""
    words = (w for name in book.names for w in book.reasons(name)[book.defined] if w)
    return next(words, "")
