"""The sums of dK over its keys as ledger lines, from what a kernel shows of its inside.

    sum_j dK_jc  =  before + cast + product        of each batch, key head and channel
    before       =  scale sum_i R_i q_ic           R_i the row sums of dS of the group's heads
    cast         =  scale sum_i cast_i q_ic        what the cast of dS adds to them
    product      =  what is left: accumulation and store of dK

``before`` and ``cast`` are bounded by the row bounds of the ledger, times |q_ic|; ``product`` by
the tensor core or float32, and half a unit of each dK_jc as stored. So ``product`` ties the dK that
was returned to the dS that was shown, which no row sum does. Blind: a dK whose keys are exchanged,
and channels where Q is 0. Evaluated in float64, whose own error is part of each bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dmverify.spec.bounds.columns import product_bound, store_bound
from dmverify.spec.bounds.errors import Errors
from dmverify.spec.bounds.norms import measure
from dmverify.spec.bounds.premises import PREMISES
from dmverify.spec.case import F64, Inputs, Internals, Outputs, Trace
from dmverify.spec.ledger.bounds.constants import TWO_U64
from dmverify.spec.ledger.ledger import CAST, Ledger
from dmverify.spec.ledger.row_block import ELEMENTS
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
    whole = Columns(
        values={name: _empty(problem) for name in LINES},
        bounds={name: _empty(problem) for name in LINES},
        defined=np.zeros((problem.batch, problem.kv_heads, problem.head_dim), dtype=bool),
        reason=failed[0][0].reason if failed else _first_reason(book),
    )
    size = max(problem.heads, problem.kv_heads) * max(problem.queries, problem.keys)
    step = max(ELEMENTS // max(size * problem.head_dim, 1), 1)
    trace = Trace(problem, inputs, internals, outputs)
    for start in range(0, problem.batch, step):  # entries of a long batch come a few at a time
        some = _Entries(trace, book, slice(start, start + step))
        _fill(whole, some, errors, np.inf if failed else 0.0)
    return whole


class _Entries:
    """Some entries of the batch, as ``columns`` takes them."""

    def __init__(self, trace: Trace, book: Ledger, at: slice) -> None:
        problem, internals = trace.problem, trace.internals
        self.at = at
        self.dk = trace.outputs.dk[at].astype(np.float64)
        self.problem = replace(problem, batch=len(self.dk))
        self.q = np.copysign(internals.q[at], trace.inputs.q[at].swapaxes(1, 2))
        self.q *= np.sign(problem.scale)
        self.sizes = np.abs(internals.ds_cast[at]).sum(axis=-1)
        each = problem.heads * problem.queries
        self.rows = slice(at.start * each, at.start * each + len(self.dk) * each)
        self.book = book

    def over_rows(self, rows: F64, q: F64) -> F64:
        """scale sum_i rows_i q_ic over the rows of a key head's query heads, (B, Hkv, D)."""
        problem = self.problem
        shape = (problem.batch, problem.kv_heads, problem.group, *q.shape[2:])
        weighted = np.where(q.reshape(shape) == 0, 0.0, _grouped(problem, rows)[..., None])
        weighted *= q.reshape(shape)
        of_rows = tuple(range(2, weighted.ndim - 1))  # heads of the group, and queries
        return np.asarray(abs(problem.scale) * weighted.sum(axis=of_rows))

    def added(self, terms: tuple[str, ...]) -> F64:
        """Sum of bounds of rows, rounded up."""
        bounds = [self.book.bounds[n][self.rows] for n in terms]
        return np.asarray(np.sum(bounds, axis=0) * (1 + len(terms) * TWO_U64))


def _fill(whole: Columns, some: _Entries, errors: Errors, unmet: float) -> None:
    """The lines of some entries; ``unmet`` is infinite where a premise fails."""
    problem, dk, book, size = some.problem, some.dk, some.book, np.abs(some.q)
    sums = {"before": book.residual[some.rows], "cast": book.values[CAST][some.rows]}
    limits = {"before": some.added(book.terms), "cast": some.added((CAST,))}
    values = {name: some.over_rows(rows, some.q) for name, rows in sums.items()}
    bounds = {name: some.over_rows(rows, size) for name, rows in limits.items()}
    mass = some.over_rows(some.sizes.reshape(-1), size)
    values["product"] = dk.sum(axis=1) - values["before"] - values["cast"]
    bounds["product"] = _product(errors, some.sizes, some.q) + store_bound(dk, errors.store)
    own = (problem.queries * problem.group + problem.keys) * 2 * TWO_U64
    slack = own * (mass + np.abs(dk).sum(axis=1))
    known = _grouped(problem, book.defined[some.rows])
    whole_rows = np.asarray(known.all(axis=tuple(range(2, known.ndim))))
    defined = whole_rows[..., None] & np.isfinite(values["product"])
    whole.defined[some.at] = defined
    for name in LINES:
        whole.values[name][some.at] = np.where(defined, values[name], 0.0)
        whole.bounds[name][some.at] = np.where(defined, bounds[name] + slack + unmet, 0.0)


def _empty(problem: Problem) -> F64:
    return np.empty((problem.batch, problem.kv_heads, problem.head_dim))


def _grouped(problem: Problem, rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Rows of a ledger as (B, Hkv, group, Nq)."""
    return rows.reshape(problem.batch, problem.kv_heads, problem.group, problem.queries)


def _product(errors: Errors, sizes: F64, q: F64) -> F64:
    """What accumulation may add, (B, Hkv, D)."""
    problem = errors.problem
    added = abs(problem.scale) * product_bound(errors, sizes, np.abs(q))
    shape = (len(q), problem.kv_heads, problem.group, problem.head_dim)
    return np.asarray(added.reshape(shape).sum(axis=2))


def _first_reason(book: Ledger) -> str:
    """Why a row's bound is infinite, of the first that is."""
    words = (w for name in book.names for w in book.reasons(name)[book.defined] if w)
    return next(words, "")
