"""Lemmas about products of two E4M3 codes and their alignment in the FP8 wgmma of sm_90.

Model (measured on an H200, zero mismatches): products n 2^(e-6) with n the integer product of two
stored significands (not normalised) and e the sum of the stored exponents; E the largest exponent
of a nonzero term, C included; q = 2^(E-13); every term truncated toward zero to a multiple of q.
With d = E - e a product is n 2^(7-d) q. Not covered: NaN operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import z3

from dmverify.proofs.encode import bv, within
from dmverify.proofs.exact import decode_e4m3, exponent_of, pow2, truncate, wgmma, wgmma_terms
from dmverify.proofs.registry import Expr, Goal, Outcome, Sweep, Values, lemma

F = Fraction
MAX_DISTANCE = 28  # exponents of products span [-12, 16]
PRODUCTS = [(a, b) for a in range(0x7F) for b in range(0x7F)]


def significand(code: Expr, *, mantissa_bits: int = 3) -> Expr:
    """Stored significand of a code as a 32-bit vector: m, or m + 2^mantissa_bits."""
    m = z3.ZeroExt(32 - mantissa_bits, z3.Extract(mantissa_bits - 1, 0, code))
    return z3.If(_field(code, mantissa_bits) == 0, m, m + bv(1 << mantissa_bits))


def exponent(code: Expr, *, mantissa_bits: int = 3) -> Expr:
    """Stored exponent of a code as a signed 32-bit vector."""
    field = _field(code, mantissa_bits)
    bias = 2 ** (6 - mantissa_bits) - 1
    return z3.If(field == 0, bv(1), field) - bv(bias)


def _field(code: Expr, mantissa_bits: int) -> Expr:
    return z3.ZeroExt(25 + mantissa_bits, z3.Extract(6, mantissa_bits, code))


def finite_code(code: Expr) -> Expr:
    """A non-negative E4M3 number; signs play no part in a sign-magnitude truncation."""
    return z3.ULT(code, z3.BitVecVal(0x7F, 8))


def sweep_products(bits: Fraction) -> Sweep:
    """All pairs of non-negative numbers."""
    bad = 0
    for a, b in PRODUCTS:
        p = F(decode_e4m3(a) or 0) * F(decode_e4m3(b) or 0)
        odd = p.numerator >> ((p.numerator & -p.numerator).bit_length() - 1) if p else 0
        bad += odd.bit_length() > bits or (p > 0 and not -18 <= exponent_of(p) <= 17)
    return Sweep(len(PRODUCTS), bad)


@lemma(
    "product-exact",
    "The product of two E4M3 numbers has at most 8 significant bits and exponent in [-12, 16]: it "
    "is exact in BF16, fp32 and the tensor core.",
    topic="tensor core",
    used_by=(
        "spec.machine.hopper.wgmma_fast:_chain",
    ),
    constant=8, control=7, kind="format", sweep=sweep_products,
)  # fmt: skip
def _product_exact(bits: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 8)
    n, e = significand(a) * significand(b), exponent(a) + exponent(b)
    low_zeros = (n & bv((1 << max(0, 8 - int(bits))) - 1)) == 0
    narrow = z3.Or(z3.ULT(n, bv(1 << int(bits))), low_zeros)

    def replay(v: Values) -> Outcome:
        x, y = decode_e4m3(int(v["a"])), decode_e4m3(int(v["b"]))
        if x is None or y is None:
            return Outcome(False, False)
        p = x * y
        fits = p == 0 or truncate(p, pow2(exponent_of(p) - int(bits) + 1)) == p
        return Outcome(True, fits)

    conclusion = z3.And(narrow, e >= bv(-12), e <= bv(16))
    return [Goal("width", (finite_code(a), finite_code(b)), conclusion, replay)]


@lemma(
    "exact-dot-float64",
    "A dot product of K <= 2^17 pairs of E4M3 numbers is an integer below 2^53 in units of 2^-18, "
    "partial sums included: float64 adds it exactly in any order. One term more: "
    "|S + p| <= (k + 1) 448^2.",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_dot:wgmma_any_order",
    ),
    constant=2**17, control=2**18,
)  # fmt: skip
def _exact_dot_float64(limit: Fraction) -> Sequence[Goal]:
    k, s, p = z3.Ints("k s p")
    peak = (448 * 512) ** 2
    hypotheses = (k >= 0, within(s, k * peak), within(p, z3.IntVal(peak)))
    step = Goal("step", hypotheses, within(s + p, (k + 1) * peak))

    def replay(v: Values) -> Outcome:
        k, s = int(v["k"]), int(v["s"])  # at most k products 448 * 448
        return Outcome(0 <= k <= limit and abs(s) <= k * peak, abs(s) <= 2**53)

    total = (k >= 0, k <= int(limit), within(s, k * peak))
    return [step, Goal("fits", total, within(s, z3.IntVal(2**53)), replay)]


def aligned(n: Expr, d: Expr) -> tuple[Expr, Expr]:
    """Truncated product in units of q, and its remainder in units of q 2^-d."""
    scaled = n << bv(7)
    return z3.LShR(scaled, d), scaled & ((bv(1) << d) - bv(1))


def sweep_window(width: Fraction) -> Sweep:
    """All pairs, at every distance up to the window's width."""
    bad = sum(
        (n * 2 ** (7 + 28 - d)) % 2**28 != 0
        for n in distinct_products()
        for d in range(int(width) + 1)
    )
    return Sweep(len(distinct_products()) * (int(width) + 1), bad)


def distinct_products() -> list[int]:
    """Products of two stored significands."""
    stored = range(16)
    return sorted({x * y for x in stored for y in stored})


def _pair_replay(v: Values) -> tuple[Fraction, Fraction, int]:
    """Product, loss and distance of a concrete pair of codes against an exponent E."""
    a, b, top = int(v["a"]), int(v["b"]), _signed(int(v["E"]))
    # C = 2^E fixes the alignment; C itself loses nothing.
    terms, _, q = wgmma_terms([a], [b], pow2(top))
    p = F(decode_e4m3(a) or 0) * F(decode_e4m3(b) or 0)
    e = sum(max((code & 0x7F) >> 3, 1) - 7 for code in (a, b))
    return (p - terms[0]) / q, p / q, top - e


def _signed(x: int) -> int:
    return x - 2**32 if x >= 2**31 else x


@lemma(
    "wgmma-window",
    "A product whose exponent is at least E - 7 is aligned without loss.",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_dot:_alignment",
    ),
    constant=7, control=8, kind="format", sweep=sweep_window,
)  # fmt: skip
def _wgmma_window(width: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 8)
    top = z3.BitVec("E", 32)
    n, d = significand(a) * significand(b), top - exponent(a) - exponent(b)
    _, lost = aligned(n, d)

    def replay(v: Values) -> Outcome:
        loss, _, distance = _pair_replay(v)
        return Outcome(0 <= distance <= width, loss == 0)

    hypotheses = (finite_code(a), finite_code(b), d >= bv(0), d <= bv(int(width)), n != 0)
    return [Goal("exact", hypotheses, lost == 0, replay)]


def sweep_sizes(c: Fraction) -> Sweep:
    """All significand products at all distances: the size of a product against its loss."""
    cases = [(n, d) for n in distinct_products() for d in range(MAX_DISTANCE + 1)]
    bad = sum(F(n) * pow2(-6 - d) >= c and (n << 7) % 2**d != 0 for n, d in cases)
    return Sweep(len(cases), bad)


@lemma(
    "wgmma-large-exact",
    "A product of at least 2^-6 2^E in size has no bit below q, whatever its exponent.",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_open:fp8_dot",
        "spec.ledger.bounds:_CORE",
        "spec.ledger.bounds.constants:SURELY_EXACT",
    ),
    constant=pow2(-6), control=pow2(-7), sweep=sweep_sizes,
)  # fmt: skip
def _wgmma_large_exact(c: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 8)
    top = z3.BitVec("E", 32)
    n, d = significand(a) * significand(b), top - exponent(a) - exponent(b)
    _, lost = aligned(n, d)
    # n 2^(-6-d) >= c with c = 2^-k is n 2^k >= 2^(6+d).
    large = z3.UGE(n << bv(exponent_of(1 / c)), bv(1) << (d + bv(6)))
    hypotheses = (finite_code(a), finite_code(b), d >= bv(0), d <= bv(20), large)

    def replay(v: Values) -> Outcome:
        loss, p, distance = _pair_replay(v)
        return Outcome(distance >= 0 and p >= c * 2**13, loss == 0)

    return [Goal("exact", hypotheses, lost == 0, replay)]


def sweep_loss(c: Fraction) -> Sweep:
    """All significand products at all distances beyond the window."""
    cases = [(n, d) for n in distinct_products() for d in range(8, MAX_DISTANCE + 1)]
    bad = 0
    for n, d in cases:
        p = F(n) * pow2(7 - d)
        loss = p - truncate(p, F(1))
        bad += loss > min(p, c * (1 - pow2(7 - d)))
    return Sweep(len(cases), bad)


@lemma(
    "wgmma-alignment-loss",
    "A product beyond the window loses at most min(|p|, q - 2^(e-6)).",
    topic="tensor core",
    used_by=(
        "spec.arithmetic.enclosure_dot:_alignment",
        "spec.ledger.bounds:_CORE",
    ),
    constant=1, control=F(63, 64), sweep=sweep_loss,
)  # fmt: skip
def _wgmma_alignment_loss(c: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 8)
    top = z3.BitVec("E", 32)
    n, d = significand(a) * significand(b), top - exponent(a) - exponent(b)
    _, lost = aligned(n, d)
    step = (bv(1) << d) - bv(128)
    scaled = z3.ZeroExt(8, lost) * z3.BitVecVal(c.denominator, 40)
    bounded = z3.ULE(scaled, z3.ZeroExt(8, step) * z3.BitVecVal(c.numerator, 40))

    def replay(v: Values) -> Outcome:
        loss, p, distance = _pair_replay(v)
        inside = 8 <= distance <= MAX_DISTANCE
        return Outcome(inside, loss <= min(p, c * (1 - pow2(7 - distance))))

    hypotheses = (
        finite_code(a), finite_code(b), d >= bv(8), d <= bv(MAX_DISTANCE),
    )  # fmt: skip
    return [Goal("loss", hypotheses, z3.And(bounded, z3.ULE(lost, n << bv(7))), replay)]


def sweep_transpose(bits: Fraction) -> Sweep:
    """All pairs of codes, one way and the other."""
    codes, width, bad, cases = range(0x78), int(bits), 0, 0
    for a in codes:
        for b in codes:
            cases += 1
            bad += wgmma([a], [b], F(0), b_exponent_bits=width) != wgmma(
                [b], [a], F(0), b_exponent_bits=width
            )
    return Sweep(cases, bad)


@lemma(
    "wgmma-transpose",
    "With both operands E4M3 (4 exponent bits) a product and its exponent are the same from either "
    "side, and the sum of integers has no order: S^T = K Q^T equals S = Q K^T in every bit.",
    topic="tensor core",
    used_by=(
        "spec.machine.hopper.wgmma_fast:wgmma_finite",
    ),
    constant=4, control=5, kind="format", sweep=sweep_transpose,
)  # fmt: skip
def _wgmma_transpose(bits: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 8)
    mantissa = 7 - int(bits)

    def product(x: Expr, y: Expr) -> tuple[Expr, Expr]:
        n = significand(x) * significand(y, mantissa_bits=mantissa)
        return n << bv(3 - mantissa), exponent(x) + exponent(y, mantissa_bits=mantissa)

    (n, e), (m, f) = product(a, b), product(b, a)

    def replay(v: Values) -> Outcome:
        x, y, width = int(v["a"]), int(v["b"]), int(bits)
        one = wgmma([x], [y], F(0), b_exponent_bits=width)
        other = wgmma([y], [x], F(0), b_exponent_bits=width)
        return Outcome(x < 0x78 and y < 0x78, one == other)

    top = z3.BitVecVal(0x78, 8)  # below it a code is a number in E5M2 as well
    guide = (n != m, z3.UGE(a, z3.BitVecVal(0x40, 8)), z3.UGE(b, z3.BitVecVal(0x20, 8)))
    same = z3.And(n == m, e == f)
    return [Goal("product", (z3.ULT(a, top), z3.ULT(b, top)), same, replay, guide)]
