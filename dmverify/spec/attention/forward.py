"""Steps 4 to 6: P codes, the online sums, O and LSE.

    4. code = round(e / basis) in E4M3; basis is amax / 448 of the group, or 1 (``p_encoding``)
    5. for each window w in ascending order, with the lazy reference R (an integer; it moves, by an
       exact power of two, only when b exceeds R + 32):
           beta = 2^(b - R)
           l  += beta * sum of e         lh += beta * sum of codes x basis
           O  += beta * sum of codes x basis x V
    6. O = O / normaliser, stored in BF16
       LSE = b + log l + scale <q, mean of k>: the last term gives back what centring took off the
       logits, so that the LSE is the call's own and partial results over keys can be merged

A contract without windows is the case of one window with R = b, where beta is 1 and every line of
step 5 is a plain sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

import numpy as np

from dmverify.spec.arithmetic.interface import Arithmetic, Enclosing
from dmverify.spec.attention.freedom import lse as open_lse
from dmverify.spec.attention.freedom import quotient, running_cast
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.products import Coded, combination, constant, keep, one, visited
from dmverify.spec.attention.softmax import (
    OFFSET,
    Scores,
    exponentials,
    references,
    scores,
)
from dmverify.spec.attention.sums import channel_dot, combine, row_sum
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

RUNNING = MappingProxyType({"bf16": (BF16, 0), "e4m3": (E4M3, 8), "unrounded": (None, 0)})
"""Format and power of two of P's encodings that have no basis."""

LAZY = 32.0  # R moves when b passes it by more: O and l stay below 2^(32 + 8) x keys


@dataclass(frozen=True)
class Forward:
    """What the forward leaves behind.

    Attributes:
        o: Stored output, (M, D).
        o32: Output before the store, (M, D).
        lse: Natural logarithm of the row sum, (M, 1); meaningless on dead rows.
        scores: Step 1, for the backward.
        reference: b of the row, or the integer M, (M, 1, 1).
        l: Sum of the unrounded e relative to ``reference``, 1 on dead rows, (M, 1).
        norm: What O was divided by or multiplied with, (M, 1).
        weight: code x basis in the forward's numbers, (M, N).
        window_weight: beta of each window relative to the last R, (M, W, 1).
        b: Reference of each window, (M, W, 1).
        live: numpy bool, rows that see a key, (M, 1).
        e: Exponentials relative to ``reference``, if they were formed relative to it, (M, W, L).
    """

    o: Array
    o32: Array
    lse: Array
    scores: Scores
    reference: Array
    l: Array  # noqa: E741 - the field's symbol
    norm: Array
    weight: Coded
    window_weight: Array
    b: Array
    live: Array
    e: Array | None


@dataclass
class _Running:
    """The state of step 5."""

    r: Array
    l: Array  # noqa: E741
    lh: Array
    o: Array
    betas: list[Array]


def forward(a: Arithmetic, contract: Contract, head: Head) -> Forward:
    """Steps 1 to 6 for one head."""
    s = scores(a, contract, head)
    b = references(a, contract, s)
    e = exponentials(a, contract, s, b)
    p = encode(a, contract, e)
    run = _online(a, contract, head, s, b, e, p)
    finished = _finish(a, contract, head, s, b, p, run)
    return finished if isinstance(contract.schedule, Windows) else replace(finished, e=e)


def encode(a: Arithmetic, contract: Contract, e: Array) -> Coded:
    """Step 4: codes (M, G, g) and their basis, (M, G, 1) or 1."""
    if isinstance(contract.schedule, Online):
        return _running(a, contract, e)
    if isinstance(contract.schedule, Windows):
        return Coded(a.cast(e, E4M3, site="p", saturate=contract.saturate), one(a))
    rows, windows, width = e.shape
    groups = e.reshape(rows, -1, min(contract.schedule.p_group, windows * width))
    basis = amax_scale(a, a.max(groups, 2))
    codes = a.cast(a.scale_down(groups, basis), E4M3, site="p", saturate=contract.saturate)
    return Coded(codes, basis)


def _running(a: Arithmetic, contract: Contract, e: Array) -> Coded:
    """e in a format, relative to the last of the running maxima, where the exponent is 0."""
    fmt, exponent = RUNNING[contract.schedule.p]
    scaled = a.mul(e, constant(a, 2.0**exponent))
    codes = scaled if fmt is None else a.cast(scaled, fmt, site="p", saturate=True)
    unit = constant(a, 2.0**-exponent)
    if not a.encloses:
        return Coded(codes, unit)
    return Coded(running_cast(a, contract, e, a.mul(codes, unit)), one(a))


def amax_scale(a: Arithmetic, amax: Array) -> Array:
    """The article's rule: amax / 448, and 1 for an all-zero group."""
    scale = a.div(amax, constant(a, E4M3.max_finite))
    return a.select(a.greater(amax, constant(a, 0.0)), scale, one(a))


def reciprocal(a: Arithmetic, x: Array) -> Array:
    """1 / x, rounded once."""
    return a.div(one(a)[0], x)


def _online(
    a: Arithmetic, contract: Contract, head: Head, s: Scores, b: Array, e: Array, p: Coded
) -> _Running:
    """Step 5."""
    lanes = row_sum(a, contract, e)
    sums = _code_sums(a, contract, p, lanes)
    zero, there = constant(a, 0.0)[0], visited(contract, s.seen)
    run = _Running(r=b[:, 0], l=zero, lh=zero, o=zero, betas=[])
    for w in range(e.shape[1]):
        beta = _advance(a, contract, s, b, run, w)
        run.l = keep(a, there[:, w], a.fma(lanes[:, w], beta, run.l), run.l)
        run.lh = keep(a, there[:, w], a.fma(sums[:, w], beta, run.lh), run.lh)
        raw, factor = combination(a, contract, p, head.v, window=w, weight=beta)
        run.o = keep(a, there[:, w], a.fma(raw, factor, run.o), run.o)
        run.betas.append(beta)
    return run


def _code_sums(a: Arithmetic, contract: Contract, p: Coded, lanes: Array) -> Array:
    """Sum of codes x basis over each window: on codes, a dot with ones like PV itself."""
    if not isinstance(contract.schedule, Windows):
        return a.sum(p.dequantised(a)[:, None], 2)
    m, windows, width = p.codes.shape
    ones = a.array(np.ones((1, width), np.float32))
    return a.dot(p.codes.reshape(-1, width), ones, over="tokens").reshape(m, windows, 1)


@rests_on("alpha-at-most-one", "stale-maximum", "rescale-exact")
def _advance(
    a: Arithmetic, contract: Contract, s: Scores, b: Array, run: _Running, w: int
) -> Array:
    """Moves R if window w asks for it, rescales the state, and gives the window's weight."""
    if not isinstance(contract.schedule, Windows):
        return one(a)[0]
    live = s.live[:, w]
    first = live & ~s.live[:, :w].any(axis=1)
    up = a.ceil(b[:, w])
    passed = a.greater(b[:, w], a.add(run.r, constant(a, LAZY)[0]))
    moved = a.select(a.mask(live), a.select(passed, up, run.r), run.r)
    r = a.select(a.mask(first), up, moved)
    shift = a.select(a.mask(first), one(a)[0], a.exp2(a.sub(run.r, r)))
    run.l, run.lh, run.o = (a.mul(x, shift) for x in (run.l, run.lh, run.o))
    run.betas = [a.mul(beta, shift) for beta in run.betas]
    run.r = r
    return a.exp2(a.sub(a.select(a.mask(live), b[:, w], r), r))


@rests_on("dead-row")
def _finish(
    a: Arithmetic,
    contract: Contract,
    head: Head,
    s: Scores,
    b: Array,
    p: Coded,
    run: _Running,
) -> Forward:
    """Step 6."""
    live = s.live.any(axis=1)
    some = a.mask(live)
    total = _sum(a, contract, combine(a, run.l))  # relative to R, like O and lh
    norm = total if contract.normaliser == "unrounded" else _sum(a, contract, run.lh)
    norm = a.select(some, norm, one(a)[0])
    reference, step = _saved(a, contract, s, b, run.r)
    total = a.select(some, total if step is None else a.mul(total, step), one(a)[0])
    if isinstance(contract.schedule, Windows):
        norm = reciprocal(a, norm)
    o32 = (a.div if not isinstance(contract.schedule, Windows) else a.mul)(run.o, norm)
    o32 = quotient(a, contract, o32)
    return Forward(
        o=store_output(a, contract, head, o32),
        o32=o32,
        lse=_lse(a, contract, head, reference, total),
        scores=s,
        reference=reference[:, None],
        l=total,
        norm=norm,
        weight=p,
        window_weight=_columns(a, run.betas, len(live))[:, :, None],
        b=b,
        live=live,
        e=None,
    )


def store_output(a: Arithmetic, contract: Contract, head: Head, o32: Array) -> Array:
    """O as the backward reads it."""
    if contract.store == "bf16":
        return a.cast(o32, BF16, site="o", saturate=False)
    k = head.exponents.get("o", 0)
    codes = a.cast(a.mul(o32, constant(a, 2.0**k)[0]), E4M3, site="o", saturate=True)
    return a.mul(codes, constant(a, 2.0**-k)[0])


def _sum(a: Arithmetic, contract: Contract, total: Array) -> Array:
    """The row's sum; relative to the row's maximum it holds a term of about 1."""
    if a.encloses and isinstance(contract.schedule, Rows):
        return cast(Enclosing, a).with_largest(total)
    return total


def _columns(a: Arithmetic, betas: list[Array], rows: int) -> Array:
    """Window weights side by side: (M, W)."""
    return a.concatenate([a.broadcast(beta, (rows, 1)) for beta in betas], 1)


def _saved(
    a: Arithmetic, contract: Contract, s: Scores, b: Array, r: Array
) -> tuple[Array, Array | None]:
    """The reference that is saved (M, 1), and what brings l from R to it."""
    if not isinstance(contract.schedule, Windows):
        return b[:, 0], None
    lowest = constant(a, -math.inf)
    top = a.max(a.select(a.mask(s.live), b, lowest), 1)[:, 0]
    top = a.select(a.mask(s.live.any(axis=1)), top, constant(a, 0.0)[0])
    m = a.add(a.ceil(top), constant(a, OFFSET)[0])
    return m, a.exp2(a.sub(r, m))


@rests_on("lse-store")
def _lse(a: Arithmetic, contract: Contract, head: Head, reference: Array, total: Array) -> Array:
    if not isinstance(contract.schedule, Windows):
        lse = open_lse(a, contract, reference, a.log(total))
    else:
        lse = a.mul(a.add(reference, a.log2(total)), a.ln2())
    if contract.centre_k == "none":
        return lse
    mean = a.broadcast(head.k_mean, head.q_input.shape)
    shift = channel_dot(a, contract, head.q_input, mean)
    return a.add(lse, a.mul(shift, constant(a, head.scale)[0]))
