"""Lemmas about the FP8 wgmma of sm_90 as a whole: losses, exact sum, 14 significant bits, chains.

Model (measured on an H200, zero mismatches): every term, the products (see ``products``) and C, is
truncated toward zero to a multiple of q = 2^(E - 13); the integers are added; the sum is truncated
toward zero to 14 significant bits; the next instruction takes it as its C. Not covered: NaN and
infinite operands, accumulators other than f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import bv, least, mag, rat, within
from dmverify.proofs.exact import decode_e4m3, exponent_of, pow2, wgmma, wgmma_terms
from dmverify.proofs.products import (
    MAX_DISTANCE,
    aligned,
    distinct_products,
    exponent,
    finite_code,
    significand,
)
from dmverify.proofs.registry import Goal, Outcome, Sweep, Values, lemma

F = Fraction
CODE_240 = 0x77  # significand 15, exponent 7


def _losses(bound: Fraction, *, narrow_c: bool) -> Sequence[Goal]:
    """One instruction's total alignment loss in units of q.

    First goal: a product loses at most 63/64 q. A C of 14 significant bits is exact when its own
    exponent is E ("wgmma-c-exact"); otherwise a product sits at E and loses nothing.
    """
    a, b = z3.BitVecs("a b", 8)
    top = z3.BitVec("E", 32)
    n, d = significand(a) * significand(b), top - exponent(a) - exponent(b)
    _, lost = aligned(n, d)
    limit = z3.If(d <= bv(6), bv(0), (bv(1) << (d - bv(6))) * bv(63))
    hypotheses = (finite_code(a), finite_code(b), d >= bv(0), d <= bv(MAX_DISTANCE))
    single = Goal("one product", hypotheses, z3.ULE(lost, limit))

    loss = [z3.Int(f"l{i}") for i in range(32)]  # units of q/64
    c_loss = z3.Int("lC")  # units of q/1024
    carried = z3.And(c_loss >= 0, c_loss <= 1023)
    if narrow_c:
        carried = z3.Or(c_loss == 0, z3.And(carried, z3.Or(*(x == 0 for x in loss))))
    terms = (*(z3.And(x >= 0, x <= 63) for x in loss), carried)
    below = 16 * z3.Sum(loss) + c_loss <= int(bound * 1024)
    guide = tuple(z3.Or(x == 0, x == 63) for x in loss)
    return [single, Goal("sum", terms, below, lambda v: _replay_losses(v, bound), guide)]


def _replay_losses(v: Values, bound: Fraction) -> Outcome:
    """Rebuild the losses from codes: 7 * 9 at distance 13 loses 63/64 q, C its low ten bits."""
    losses, low = [int(v[f"l{i}"]) for i in range(32)], int(v["lC"])
    a, b = [0x07 if x else 0 for x in losses], [0x19 if x else 0 for x in losses]
    c = F(2**23 + low, 2**20)
    terms, c_term, q = wgmma_terms(a, b, c)
    exact = sum(bool(x) for x in losses) * F(decode_e4m3(0x07) or 0) * F(decode_e4m3(0x19) or 0)
    measured = (exact - sum(terms, F(0)) + c - c_term) / q
    return Outcome(measured == F(sum(losses), 64) + F(low, 1024), measured <= bound)


def sweep_losses(bound: Fraction) -> Sweep:
    """All products and all significands of C at all distances: 32 of the worst and the worst.

    The terms are free of each other, so the largest sum is the sum of the largest. A C further than
    24 places below E is lost whole, and is less than q.
    """
    cases = [(n << 7, d) for n in distinct_products() for d in range(MAX_DISTANCE + 1)]
    product = max(F(n % 2**d, 2**d) for n, d in cases)
    c = np.arange(2**23, 2**24, dtype=np.int64)
    carried = max(F(int((c & ((1 << w) - 1)).max()), 1 << w) for w in range(10, 35))
    return Sweep(len(cases) + 25 * len(c), int(32 * product + carried >= bound))


@lemma(
    "wgmma-rho-wide",
    "One instruction's alignment loss, over 32 products and any fp32 C, is below 33 q.",
    topic="tensor core",
    used_by=(
        "spec.machine.hopper.wgmma_reference:finite_sum",
    ),
    constant=33, control=32, sweep=sweep_losses,
)  # fmt: skip
def _wgmma_rho_wide(bound: Fraction) -> Sequence[Goal]:
    return _losses(bound, narrow_c=False)


@lemma(
    "wgmma-rho-chained",
    "With a C of 14 significant bits, as every chained instruction has, the loss is below 32 q.",
    topic="tensor core", rests_on=("wgmma-c-exact",),
    used_by=(
        "spec.bounds.errors:DOT",
    ),
    constant=32, control=31,
)  # fmt: skip
def _wgmma_rho_chained(bound: Fraction) -> Sequence[Goal]:
    return _losses(bound, narrow_c=True)


def sweep_narrow(bits: Fraction) -> Sweep:
    """Every significand of that many bits, aligned to its own exponent."""
    narrow = [F(c, 2**23) for c in range(2**23, 2**24, 2 ** (24 - int(bits)))]
    return Sweep(len(narrow), sum(wgmma_terms([], [], c)[1] != c for c in narrow))


@lemma(
    "wgmma-c-exact",
    "A C of at most 14 significant bits whose exponent is E is aligned without loss.",
    topic="tensor core",
    used_by=(
        "proofs.tensor_core:_wgmma_rho_chained",
        "spec.bounds.errors:DOT",
    ),
    constant=14, control=15, kind="format", sweep=sweep_narrow,
)  # fmt: skip
def _wgmma_c_exact(bits: Fraction) -> Sequence[Goal]:
    c = z3.BitVec("C", 32)
    digits = 0xFFFFFFFF ^ ((1 << (24 - int(bits))) - 1)
    hypotheses = (c & bv(digits) == c, z3.UGE(c, bv(1 << 23)), z3.ULT(c, bv(1 << 24)))
    shifted = z3.LShR(c, 10) << bv(10)  # 24 - 14 bits lie below q when e_c = E

    def replay(v: Values) -> Outcome:
        c = F(int(v["C"]), 2**23)
        narrow = int(v["C"]) & digits == int(v["C"]) and 1 <= c < 2
        _, kept, _ = wgmma_terms([], [], c)
        return Outcome(narrow, kept == c)

    return [Goal("exact", hypotheses, shifted == c, replay)]


def sweep_final(c: Fraction) -> Sweep:
    """Every sum up to 2^20."""
    total = np.arange(1, 2**20, dtype=np.int64)
    drop = np.maximum(np.frexp(total.astype(np.float64))[1] - 14, 0)
    lost = total & ((1 << drop) - 1)
    return Sweep(len(total), int((lost * (1 / c).numerator >= total).sum()))


@lemma(
    "wgmma-final-truncation",
    "Truncating the sum T, |T| < 2^20, to 14 significant bits loses less than 2^-13 |T|.",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_dot:ACC_TRUNCATION",
        "spec.machine.hopper.wgmma_fast:_result",
        "spec.ledger.bounds:_CORE",
        "spec.ledger.bounds.constants:ACC_TRUNCATION",
    ),
    constant=pow2(-13), control=pow2(-14), sweep=sweep_final,
)  # fmt: skip
def _wgmma_final_truncation(c: Fraction) -> Sequence[Goal]:
    total = z3.BitVec("T", 64)
    low = z3.BitVecVal(0, 64)
    for width in range(15, 21):
        mask = z3.BitVecVal((1 << (width - 14)) - 1, 64)
        low = z3.If(z3.UGE(total, z3.BitVecVal(1 << (width - 1), 64)), total & mask, low)
    hypotheses = (total != 0, z3.ULT(total, z3.BitVecVal(1 << 20, 64)))
    scaled = low << z3.BitVecVal(exponent_of(1 / c), 64)

    def replay(v: Values) -> Outcome:
        a, b = products_for(int(v["T"]))
        total = F(int(v["T"]), 2**18)
        lost = total - wgmma(a, b, F(0))
        return Outcome(True, lost < c * total)

    guide = (z3.UGE(total, z3.BitVecVal(28800, 64)), z3.ULT(total, z3.BitVecVal(2**17, 64)))
    return [Goal("loss", hypotheses, z3.ULT(scaled, total), replay, guide)]


def products_for(total: int) -> tuple[list[int], list[int]]:
    """Codes of at most 32 pairs, largest exponent E = -5, whose products add up to total 2^-18.

    All lie inside the window, so none is truncated. The first is 15 * 15 at E; each further one
    takes the most that is left.

    Raises:
        ValueError: The total is below 225 * 128 or needs more than 32 products.
    """
    options = [
        (x * y << (7 - d), (8 - d) * 8 + x - 8, y)
        for d in range(8) for x in range(8, 16) for y in range(1, 16)
    ] + [(x * y, x, y) for x in range(1, 8) for y in range(1, 16)]  # fmt: skip
    pieces, rest = [max(options)], total - 225 * 128
    while rest > 0 and len(pieces) < 32:
        pieces.append(max(option for option in options if option[0] <= rest))
        rest -= pieces[-1][0]
    if rest != 0:
        raise ValueError(f"{total} cannot be built from 32 products")
    return [a for _, a, _ in pieces], [b for _, _, b in pieces]


def sweep_sizes(limit: Fraction) -> Sweep:
    """All products at all distances and all of C's 14 bits: 32 of the largest and the largest."""
    sizes = [(n << 7) >> d for n in distinct_products() for d in range(MAX_DISTANCE + 1)]
    c = np.arange(2**23, 2**24, dtype=np.int64) >> 10
    largest = 32 * max(sizes) + int(c.max())
    return Sweep(len(sizes) + len(c), int(largest > limit))


@lemma(
    "wgmma-no-overflow",
    "The integer sum of 33 truncated terms satisfies |T| <= 937983 < 2^20, so float32 adds the "
    "terms exactly in any order.",
    topic="tensor core",
    used_by=(
        "spec.bounds.errors:DOT",
        "spec.machine.hopper.wgmma_fast:_chain",
        "spec.machine.hopper.wgmma_reference:finite_sum",
    ),
    constant=937983, control=937982, sweep=sweep_sizes,
)  # fmt: skip
def _wgmma_no_overflow(limit: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 8)
    d = z3.BitVec("d", 32)
    size, _ = aligned(significand(a) * significand(b), d)
    hypotheses = (finite_code(a), finite_code(b), d >= bv(0), d <= bv(MAX_DISTANCE))
    single = Goal("one product", hypotheses, z3.ULE(size, bv(225 * 128)))

    terms, c = [z3.Int(f"t{i}") for i in range(32)], z3.Int("C")
    ranges = (*(within(t, z3.IntVal(225 * 128)) for t in terms), within(c, z3.IntVal(2**14 - 1)))

    def replay(v: Values) -> Outcome:
        # All 33 terms at their extremes, built from codes: 240 * 240 and C just below 2^(E+1).
        top = 2 * exponent_of(F(decode_e4m3(CODE_240) or 0))
        products, kept, q = wgmma_terms([CODE_240] * 32, [CODE_240] * 32, v["C"] * pow2(top - 13))
        total = (sum(products, F(0)) + kept) / q
        return Outcome(total == sum(v.values()), abs(total) <= limit)

    below = within(z3.Sum(terms) + c, z3.IntVal(int(limit)))
    return [single, Goal("sum", ranges, below, replay, (z3.Sum(terms) > 0,))]


@lemma(
    "wgmma-partials",
    "Every partial result of a chain stays in [-N-, N+], the sums of its negative and positive "
    "products: with C in [-N-, N+] and products adding p+ and -p-, D lies in [-N- - p-, N+ + p+].",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_dot:wgmma_any_order",
        "spec.arithmetic.enclosure_open:fp8_dot",
        "spec.bounds.errors:DOT",
    ),
    constant=1, control=F(1023, 1024),
)  # fmt: skip
def _wgmma_partials(k: Fraction) -> Sequence[Goal]:
    low, high, neg, pos = z3.Reals("Nminus Nplus pminus pplus")
    c, kept, fall, rise, total, d = z3.Reals("C Cq tminus tplus S D")
    toward_zero = z3.Or(z3.And(kept >= 0, kept <= c), z3.And(kept <= 0, kept >= c))
    hypotheses = (
        low >= 0, high >= 0, c >= -low, c <= high, toward_zero,
        rise >= 0, rise <= pos, fall >= 0, fall <= neg,
        total == kept + rise - fall,
        z3.Or(z3.And(d >= 0, d <= total), z3.And(d <= 0, d >= total)),
    )  # fmt: skip
    inside = z3.And(d <= rat(k) * (high + pos), d >= -rat(k) * (low + neg))

    def replay(v: Values) -> Outcome:
        # A chain of one instruction whose products are the largest ones, nothing lost.
        a, b = products_for(225 * 128)
        exact, result = F(225 * 128, 2**18), wgmma(a, b, F(0))
        same = v["D"] == result and v["pplus"] == exact and v["C"] == 0
        return Outcome(same, result <= k * exact)

    guide = (c == 0, low == 0, high == 0, neg == 0, pos == rat(F(225 * 128, 2**18)), d == pos)
    return [Goal("step", hypotheses, inside, replay, guide)]


@lemma(
    "wgmma-natural",
    "One instruction on a given C: |D - sum p - C| <= sum of the products' losses + min(|C|, q) "
    "+ 2^-13 S, S = sum |p| + |C|; a chain in a known order adds these up.",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_open:fp8_dot",
        "spec.ledger.bounds:_CORE",
    ),
    constant=pow2(-13), control=pow2(-14),
    tightened=lambda: [_natural(pow2(-13), F(1, 2))],
)  # fmt: skip
def _wgmma_natural(t: Fraction) -> Sequence[Goal]:
    return [_natural(t, F(1)), _order_free_first(t)]


def _natural(t: Fraction, carried: Fraction) -> Goal:
    """One instruction; the bound has that share of what C may lose."""
    q, size, loss, p, kept_p, d = z3.Reals("q size loss p pq D")
    c, kept, total = z3.Reals("C Cq total")
    toward_zero = z3.Or(z3.And(kept >= 0, kept <= c), z3.And(kept <= 0, kept >= c))
    hypotheses = (
        q >= 0, loss >= 0, within(p, size), within(kept_p, size), within(p - kept_p, loss),
        toward_zero, within(c - kept, q), total == size + mag(c),
        within(d - kept - kept_p, rat(pow2(-13)) * mag(kept + kept_p)),
    )  # fmt: skip
    bound = loss + rat(carried) * least(mag(c), q) + rat(t) * total
    return Goal("one instruction", hypotheses, within(d - p - c, bound))


@lemma(
    "wgmma-order-free",
    "A chain of L instructions from C = 0, in any order: |D - sum p| <= sum of alignment losses "
    "+ (L - 1) q + L 2^-13 B, with B = max(N+, N-), E = max(max e_i, floor(log2 B)), q = 2^(E-13).",
    topic="tensor core",
    used_by=(
        "conformance.bounds:ORDER_LEMMAS",
        "spec.arithmetic.enclosure_dot:wgmma_any_order",
        "spec.bounds.columns:product_bound",
        "spec.bounds.errors:DOT",
    ),
    constant=pow2(-13), control=pow2(-14),
    tightened=lambda: [_order_free_step(pow2(-13), F(1, 2))],
)  # fmt: skip
def _wgmma_order_free(t: Fraction) -> Sequence[Goal]:
    return [_smaller_exponent(), _order_free_step(t, F(1)), _order_free_first(t)]


def _smaller_exponent() -> Goal:
    """A loss bounded at an instruction's own quantum is bounded at the chain's larger one."""
    own, q, p, last, loss = z3.Reals("own q p last loss")  # last: 2^(e-6), the product's last bit
    hypotheses = (own <= q, loss <= least(p, own - last))
    return Goal("smaller E", hypotheses, loss <= least(p, q - last))


def _order_free_step(t: Fraction, carried: Fraction) -> Goal:
    """From L - 1 instructions to L: C loses below q, products lose once, the sum loses 2^-13.

    The bound has that share of q for C.
    """
    q, peak, spent, before, loss = z3.Reals("q B spent sum_before loss")
    c, kept, p, aligned_p, d = z3.Reals("C Cq p pq D")
    error, total = c - before, kept + aligned_p
    hypotheses = (
        q >= 0, peak >= 0, spent >= 0, loss >= 0,
        within(error, spent), within(c - kept, q), within(p - aligned_p, loss),
        within(total, peak), within(d - total, rat(pow2(-13)) * peak),
    )  # fmt: skip
    bound = spent + loss + rat(carried) * q + rat(t) * peak
    return Goal("step", hypotheses, within(d - before - p, bound))


def _order_free_first(t: Fraction) -> Goal:
    """One instruction, all products inside the window: the whole bound is 2^-13 of the sum."""
    total, result = z3.Int("T"), z3.Int("D")
    truncated = [
        z3.And(total >= 2 ** (w - 1), total < 2**w, result % 2 ** (w - 14) == 0,
               result <= total, total < result + 2 ** (w - 14))
        for w in range(15, 21)
    ]  # fmt: skip

    def replay(v: Values) -> Outcome:
        a, b = products_for(int(v["T"]))
        exact, result = F(int(v["T"]), 2**18), wgmma(a, b, F(0))
        return Outcome(result == F(int(v["D"]), 2**18), abs(result - exact) <= t * exact)

    hypotheses = (total >= 225 * 128, z3.Or(*truncated))
    below = z3.ToReal(total - result) <= rat(t) * z3.ToReal(total)
    return Goal("first", hypotheses, below, replay, (total < 2**16,))
