"""The sums of dK over its keys: zero in exact attention, so what a kernel leaves there is its own.

    sum_j dK_jc = scale sum_i R_i q_ic        R_i = sum_j dS_ij, over a key head's query heads

Softmax does not see a common shift of the keys, so nothing pushes back where these sums drift. From
the operands of a call alone, for every kernel that keeps the contract,

    |sum_j dK_jc| <= scale sum_i |q_ic| (|R_i| + |cast_i|)          the row sums, ``rows``
                   + what dK's product adds, summed over the keys   accumulation in fp32 or wgmma
                   + half a unit of each dK_jc as returned          the store

With P and dP exact on the dequantised operands, M = sum P |dP|, S = sum P |dP - delta|, and a
kernel's P within a factor 1 + rho, its dP within e, its sum of P within b of 1:

    |delta_k - delta| <= D = rho S + |delta| b + (1 + b) e + g M'      M' = (1 + rho) (M + e)
    sum P |dP - delta| of the kernel <= S' = (1 + rho) S + (1 + b) (e + D)
    matched                |R| <= g M' + (|delta| + D) b + (2 U + U^2) S'
    renormalized, shifted  |R| <= (g + (1 + g) (h + U) / (1 - h)) M' + 4 U M' + (3 U) S', shifted
                           with M + max |dP| + e for M
    the others             the closed form of the row sum
    |cast| <= min(S', S' / 17 + a subnormal a key), or what the chains leave

What it adds: errors of dK that lie inside every element's interval and all have one sign. It is
sharper than the intervals where no order of the channels is known and where an interval is open,
and it needs no interval at all, so it serves lengths that none is made for. Where the channels'
order is known and the intervals are finite, they imply it. Blind: errors that cancel over the keys
of a channel, rows where q_ic is 0, and what is below 1/17 of sum |q_ic| S_i. Sources: Tang et al.,
appendix A.3; the bounds are derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.stacked import Stacked
from dmverify.spec.attention.keys import enclose_centred_keys
from dmverify.spec.attention.operands import Prepared, prepare, whole
from dmverify.spec.attention.stores import Store
from dmverify.spec.bounds.closed import FLUSH, delta
from dmverify.spec.bounds.errors import (
    CODE_MAX,
    CORE,
    E4M3_NORMAL,
    K32,
    LEAST_AMAX,
    RHO_CHAINED,
    Errors,
    U,
    path,
    unit_sum,
)
from dmverify.spec.bounds.norms import measure
from dmverify.spec.bounds.premises import PREMISES
from dmverify.spec.bounds.residual import cast_of_rows, residual
from dmverify.spec.bounds.term import grown, inverse, total
from dmverify.spec.case import F64, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.bands import half_unit
from dmverify.spec.ledger.bounds.constants import (
    ELEM_ROUNDINGS,
    GRADIENT_ROUNDINGS,
    RECIPROCAL_ROUNDINGS,
    TWO_U64,
)
from dmverify.spec.ledger.bounds.derived import require_derived
from dmverify.spec.ledger.bounds.rounding import stored_rounding
from dmverify.spec.ledger.row_block import ELEMENTS
from dmverify.spec.lemmas import rests_on
from dmverify.spec.premises import BEYOND, failing
from dmverify.spec.problem import Problem

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of query heads in exact attention on the operands; (S, M) each.

    Attributes:
        mass: M, the sum of P |dP|.
        spread: S, the sum of P |dP - delta|.
        delta: |delta|.
        top: The largest |dP| of a seen key.
        rho: What a kernel's P may be off, relatively.
    """

    mass: F64
    spread: F64
    delta: F64
    top: F64
    rho: F64


@dataclass(frozen=True)
class ColumnBound:
    """What a sum of dK over the keys may be; (B, Hkv, D).

    Attributes:
        rows: The part of the row sums of dS and their cast.
        product: What the product with Q adds.
        store: How dK is stored.
        reason: Why it is infinite; empty where it is not.
    """

    rows: F64
    product: F64
    store: Store
    reason: str = ""

    def with_store(self, dk: F64) -> F64:
        """The bound for a dK as returned, (B, N, Hkv, D); float64's own sum included."""
        size = np.abs(dk)
        own = dk.shape[1] * TWO_U64 * size.sum(axis=1)
        stored = store_bound(dk, self.store)
        return np.asarray((self.rows + self.product + stored) * (1 + path(2)) + own)


@rests_on("bf16-store", "bf16-store-tiny")
def store_bound(dk: F64, store: Store) -> F64:
    """Half a unit of each number, summed over the keys: (B, N, Hkv, D) to (B, Hkv, D).

    Of the largest number of a store that saturates nothing is known but that.
    """
    found = np.empty((dk.shape[0], *dk.shape[2:]))
    step = max(ELEMENTS * len(dk) // max(dk.size, 1), 1)
    for i in range(0, len(dk), step):  # entries of a long batch are not all there at once
        some = _half_units(np.abs(dk[i : i + step]), store)
        found[i : i + step] = some.sum(axis=1)
    return found


def _half_units(size: F64, store: Store) -> F64:
    own = stored_rounding(store)
    if own.exact:
        return np.zeros_like(size)
    half = np.maximum(half_unit(size, store.fmt), own.absolute)
    return np.where(store.saturate & (size >= own.largest), np.inf, half)


@rests_on("column-sum", "matched-bound", "cast-shrinks", "e4m3-error")
def column_bound(contract: Contract, problem: Problem, inputs: Inputs) -> ColumnBound:
    """The bound of the sums of dK, from a call's inputs.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: Finite BF16 tensors (B, N, H, D).

    Raises:
        ContractError: If no closed form is derived for the contract's operands.
        InputError: For NaN or infinity where the contract's scale rule forbids them.
    """
    require_derived(contract)
    errors = Errors(contract, problem, measure(contract, problem, inputs), "operands")
    failed = failing(PREMISES, errors)
    with np.errstate(all="ignore"):
        lengths = max(problem.queries, 1), whole(problem.keys, [contract.k_block or 1])
        prepared = prepare(contract, problem, inputs, cast=True, lengths=lengths)
        rows, product = _heads(errors, prepared)
    beyond = not np.isfinite(rows + product).all()
    if failed:
        rows = np.full_like(rows, np.inf)
    rows, product = (np.where(np.isnan(x), np.inf, x) for x in (rows, product))
    reason = failed[0][0].reason if failed else BEYOND
    return ColumnBound(rows, product, errors.store, reason if failed or beyond else "")


def _heads(errors: Errors, prepared: Prepared) -> tuple[F64, F64]:
    problem = prepared.problem
    shape = (problem.batch, problem.kv_heads, problem.head_dim)
    rows, product = np.zeros(shape), np.zeros(shape)
    scale = abs(problem.scale) * (1 + (problem.queries + problem.keys) * TWO_U64)
    for batches, kv_heads in _stacks(problem):
        moved = _moved_keys(errors.contract, prepared, batches, kv_heads)
        for head in (kv_heads * problem.group + i for i in range(problem.group)):
            q = np.abs(_operand(prepared, "q", batches, head))
            left, sizes = _row_bounds(errors, _row_sizes(errors, prepared, batches, head, moved))
            seen = np.where(q > 0, left[..., None], 0.0)  # an unbounded row says nothing there
            rows[batches, kv_heads] += scale * (seen * q).sum(axis=-2)
            product[batches, kv_heads] += scale * product_bound(errors, sizes, q)
    return rows, product


def _stacks(problem: Problem) -> Iterator[tuple[Ints, Ints]]:
    """Batches and key heads, several at a time where they are small."""
    batches, kv_heads = (x.ravel() for x in np.indices((problem.batch, problem.kv_heads)))
    tokens = (problem.queries + problem.keys) * problem.head_dim
    step = max(ELEMENTS // max(problem.queries * problem.keys, tokens, 1), 1)
    for start in range(0, len(batches), step):
        yield batches[start : start + step], kv_heads[start : start + step]


def _operand(prepared: Prepared, name: str, batches: Ints, heads: Ints) -> F64:
    """Code times scale of some heads, without the padding, (S, N, D)."""
    length = prepared.problem.queries if name in ("q", "do") else prepared.problem.keys
    codes, scale = (x[batches, heads, :length].astype(np.float64) for x in prepared.tensors[name])
    return np.asarray(codes * scale)


def _moved_keys(
    contract: Contract, prepared: Prepared, batches: Ints, kv_heads: Ints
) -> F64 | None:
    """How far a kernel's own keys may be from these, where the mean's order is open, (S, N, D)."""
    inner = Enclosure(contract)
    a: Any = Stacked(inner, len(batches))
    keys = enclose_centred_keys(a, contract, prepared, batches, kv_heads)
    if keys is None:
        return None
    lo, hi = inner.ends(keys[0].numbers.array.numbers)
    here = _operand(prepared, "k", batches, kv_heads)
    real = here.shape[1]
    return np.asarray(np.maximum(hi[:, :real] - here, here - lo[:, :real]))


def _row_sizes(
    errors: Errors, prepared: Prepared, batches: Ints, heads: Ints, moved: F64 | None
) -> Rows:
    """The sizes of every row of some heads, block by block."""
    parts = list(_blocks(errors, prepared, batches, heads, moved))
    names = Rows.__dataclass_fields__
    if not parts:
        return Rows(*[np.zeros((len(batches), 0))] * len(names))
    return Rows(*(np.concatenate([getattr(p, n) for p in parts], axis=1) for n in names))


def _blocks(
    errors: Errors, prepared: Prepared, batches: Ints, heads: Ints, moved: F64 | None
) -> Iterator[Rows]:
    problem = prepared.problem
    kv_heads = heads // problem.group
    q, do = (_operand(prepared, name, batches, heads) for name in ("q", "do"))
    k, v = (_operand(prepared, name, batches, kv_heads).swapaxes(1, 2) for name in ("k", "v"))
    step = max(ELEMENTS // max(problem.keys, 1), 1)  # several heads are one block
    for start in range(0, problem.queries, step):
        cut = slice(start, start + step)
        seen = prepared.seen[: problem.queries, : problem.keys][cut]
        s = np.where(seen, abs(problem.scale) * (q[:, cut] @ k), -np.inf)
        e = np.where(seen, np.exp(s - s.max(axis=-1, initial=-np.inf, keepdims=True)), 0.0)
        p = e / np.maximum(e.sum(axis=-1, keepdims=True), 1.0)
        dp = np.where(seen, do[:, cut] @ v, 0.0)
        delta = (p * dp).sum(axis=-1)
        reach = np.zeros(delta.shape)
        if moved is not None:
            reach = (np.abs(q[:, cut]) @ moved.swapaxes(1, 2)).max(-1, initial=0)
        yield Rows(
            mass=(p * np.abs(dp)).sum(axis=-1),
            spread=(p * np.abs(dp - delta[..., None])).sum(axis=-1),
            delta=np.abs(delta),
            top=np.abs(dp).max(axis=-1, initial=0.0),
            rho=_rho(errors, abs(problem.scale) * reach),
        )


def _rho(errors: Errors, moved: F64) -> F64:
    """What a kernel's P may be off, given how far its own keys may move its logits."""
    inside = grown(math.fsum(math.log1p(term.value) for term in errors.probability))
    return np.asarray((1 + inside) * np.exp(2 * moved) - 1)


def _row_bounds(errors: Errors, rows: Rows) -> tuple[F64, F64]:
    """|R| + |cast| of rows, and their sum of |dS^|."""
    off, b = total(errors.dp), unit_sum(errors)
    mass = (1 + rows.rho) * (rows.mass + off)
    order, h = errors.row(RECIPROCAL_ROUNDINGS), errors.row(2)
    moved = delta_reach(errors, rows, mass)
    if errors.delta_mode.quotient:
        mass = mass + (1 + rows.rho) * (rows.top + off)
        moved = moved * (1 + inverse(b)) + (order + (1 + order) * (h + U) * (1 + inverse(h))) * mass
    elif errors.delta_mode.from_output:
        moved = np.full_like(mass, total(delta(errors)))
    spread = kernel_spread(errors, rows, moved)
    before = _before(errors, rows, mass, moved) + path(ELEM_ROUNDINGS) * spread + _tiny_row(errors)
    cast = cast_of_rows(errors, spread)
    return np.asarray(before + cast), np.asarray(spread * (1 + path(2)) + before + cast)


def delta_reach(errors: Errors, rows: Rows, mass: F64) -> F64:
    """|delta_k - delta| of a kernel that sums its own P dP, of mass M'."""
    off, b, order = total(errors.dp), unit_sum(errors), errors.row(RECIPROCAL_ROUNDINGS)
    return np.asarray(rows.rho * rows.spread + rows.delta * b + (1 + b) * off + order * mass)


def kernel_spread(errors: Errors, rows: Rows, moved: F64) -> F64:
    """S', the kernel's own sum of P |dP - delta|, its delta within ``moved``."""
    off, b = total(errors.dp), unit_sum(errors)
    return np.asarray((1 + rows.rho) * rows.spread + (1 + b) * (off + moved))


def _before(errors: Errors, rows: Rows, mass: F64, moved: F64) -> F64:
    """|R| without the roundings of dS."""
    order, h = errors.row(RECIPROCAL_ROUNDINGS), errors.row(2)
    if not (errors.delta_mode.quotient or errors.delta_mode.from_output):
        return np.asarray(order * mass + (rows.delta + moved) * unit_sum(errors))
    if errors.delta_mode.quotient:
        quotient = order + (1 + order) * (h + U) * (1 + inverse(h))
        return np.asarray((quotient + path(RECIPROCAL_ROUNDINGS)) * mass)
    form = residual(errors.contract, problem=errors.problem, norms=errors.norms)
    return np.full_like(mass, form.value)


def _tiny_row(errors: Errors) -> float:
    """Underflows of a row."""
    whole = errors.gradient + total(errors.dp)
    return errors.keys * FLUSH * (1 + max(errors.unit, 1.0) + whole) + errors.underflow * whole


@rests_on("wgmma-order-free", "sum-fma-chain", "promotion-step")
def product_bound(errors: Errors, sizes: F64, q: F64) -> F64:
    """What dK's product may add to a sum over the keys, before the softmax scale, (..., D).

    Args:
        errors: Of the contract and the call.
        sizes: sum_j |dS^_ij| of the rows of heads, (..., M).
        q: |Q^| of the heads, (..., M, D).
    """
    over = (sizes[..., None, :] @ q)[..., 0, :]
    problem = errors.problem
    count = problem.queries * problem.group
    if not errors.windowed:
        relative = path(count + GRADIENT_ROUNDINGS + 2 * problem.group)
        return np.asarray(relative * over + _tiny(errors))
    length = errors.schedule.step(count)
    windows = math.ceil(problem.queries / length)
    instructions = math.ceil(length / K32)
    chain = CORE * (min(length + instructions, RHO_CHAINED * instructions) + instructions)
    floor = E4M3_NORMAL * max(errors.norms.q_max, LEAST_AMAX) / CODE_MAX  # 2^-6 of Q's scale
    subnormal = sizes.sum(axis=-1, keepdims=True) * floor
    subnormal = subnormal + errors.keys * windows * E4M3_NORMAL * errors.unit * (
        errors.norms.q_max + floor
    )
    rounded = path(GRADIENT_ROUNDINGS + windows * problem.group + 2 * problem.group)
    return np.asarray((1 + rounded) * chain * (over + subnormal) + rounded * over + _tiny(errors))


def _tiny(errors: Errors) -> float:
    """Underflows of a product, summed over the keys."""
    count = errors.problem.queries * errors.problem.group
    return errors.keys * count * FLUSH * (1 + errors.norms.q_max + errors.unit * CODE_MAX)
