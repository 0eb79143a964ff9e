"""Where a window's largest exponent and code lie, for logits that float32 holds to half a unit.

The reference b is a rounded number: from 2^20 on it may miss the maximum minus 8 by more than the
half unit of E4M3 that would make the largest code 256. Below 2^24 it misses by at most 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import bv, e4m3_bits, f32_bits, mag, nearest_even, rat, within
from dmverify.proofs.exact import U, f32_value, pow2, round_e4m3, round_f32
from dmverify.proofs.registry import Goal, Outcome, Sweep, Values, lemma

F = Fraction


@lemma(
    "window-argument",
    "b = RN(m - 8): the row maximum's exponent m - b is within 1/2 of 8 for |m - 8| < 2^24, and "
    "integers below 2^24 are exact.",
    topic="softmax",
    used_by=(
        "proofs.window:_window_code",
        "spec.bounds.premises:PREMISES",
        "spec.bounds.residual:residual",
        "spec.ledger.bounds.constants:EXACT_EXPONENT",
        "spec.ledger.bounds.constants:WINDOW_RESIDUE",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds.softmax:_residue",
        "spec.ledger.bounds:_WINDOW",
    ),
    constant=2**24, control=2**25,
)  # fmt: skip
def _window_argument(limit: Fraction) -> Sequence[Goal]:
    x, n, residue = z3.Real("x"), z3.Int("n"), z3.Real("residue")  # x = m - 8
    top = int(limit).bit_length() - 1
    cases = [
        z3.And(mag(x) >= rat(pow2(e)), mag(x) < rat(pow2(e + 1)),
               nearest_even(x * rat(pow2(23 - e)), n),
               residue == x - z3.ToReal(n) * rat(pow2(e - 23)))
        for e in range(22, top)
    ]  # fmt: skip
    small = z3.And(mag(x) < rat(pow2(22)), within(residue, rat(U * pow2(22))))

    def replay(v: Values) -> Outcome:
        x = F(v["x"])
        return Outcome(abs(x) < limit, abs(x - round_f32(x)) <= F(1, 2))

    return [Goal("residue", (z3.Or(*cases, small),), within(residue, rat(F(1, 2))), replay)]


def sweep_window_code(c: Fraction) -> Sweep:
    """All float32 in the claimed interval: E4M3 steps by 16 below 256 and by 32 above."""
    bits = np.arange(f32_bits(181), f32_bits(363) + 1, dtype=np.uint32)
    x = bits.view(np.float32).astype(np.float64)
    step = np.where(x < 256, 16.0, 32.0)
    code = np.rint(x / step) * step
    return Sweep(len(bits), int(((code < float(c)) | (code > 352)).sum()))


@lemma(
    "window-code",
    "With an exponent within 1/2 of 8 a window's largest e is in [181, 363] (2^7.5 and 2^8.5 and a "
    "relative 2^-16 for ex2 and its argument), and its code in [176, 352]: never saturated.",
    topic="softmax", rests_on=("window-argument",),
    used_by=(
        "spec.bounds.errors:Errors.weights",
        "spec.bounds.premises:PREMISES",
        "spec.ledger.bounds.constants:LEAST_WINDOW_CODE",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds.softmax:window_unit",
        "spec.ledger.bounds:_WINDOW",
    ),
    constant=176, control=192, sweep=sweep_window_code,
    tightened=lambda: [_between(F(176), F(320)), _square_roots(182, 363), _square_roots(181, 362)],
)  # fmt: skip
def _window_code(c: Fraction) -> Sequence[Goal]:
    return [_between(c, F(352)), _square_roots(181, 363)]


def _square_roots(low: int, high: int) -> Goal:
    """low and high with a relative 2^-16 lie beyond 2^7.5 and 2^8.5, squared 2^15 and 2^17."""
    slack = 1 + pow2(-16)
    ends = z3.And(rat((low * slack) ** 2) <= 2**15, rat((F(high) / slack) ** 2) >= 2**17)
    return Goal("square roots of two", (), ends)


def _between(c: Fraction, top: Fraction) -> Goal:
    """All float32 of [181, 363] have codes in [c, top]."""
    x = z3.BitVec("x", 32)
    hypotheses = (z3.UGE(x, bv(f32_bits(181))), z3.ULE(x, bv(f32_bits(363))))
    code = e4m3_bits(x)
    between = z3.And(z3.UGE(code, bv(f32_bits(c))), z3.ULE(code, bv(f32_bits(top))))

    def replay(v: Values) -> Outcome:
        x = f32_value(int(v["x"]))
        if x is None:
            return Outcome(False, False)
        return Outcome(181 <= x <= 363, c <= round_e4m3(x) <= top)

    return Goal("code", hypotheses, between, replay)
