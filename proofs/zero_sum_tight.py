"""What a cast's error is within, once its code or its argument's size is known.

The error of a cast is at most half the distance of the values around its result: 2^e / 16 where the
result lies in [2^e, 2^(e+1)), which is half as much as |q| / 16 at the binade's top. And it is at
most the argument itself, as 0 is an E4M3 value; also of a number that was rounded to fp32 first.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import z3

from dmverify.proofs.cast import saturated
from dmverify.proofs.encode import mag, nearest_even, rat, rounds_e4m3, within
from dmverify.proofs.exact import U, decode_e4m3, exponent_of, pow2, round_e4m3, round_f32
from dmverify.proofs.registry import Goal, Outcome, Sweep, Values, lemma

F = Fraction
LEAST, MOST = -6, 8  # exponents of the normal values


def sweep_half_units(c: Fraction) -> Sweep:
    """The points halfway to each code's two neighbours, which are the worst that round to it."""
    bad, cases = 0, 0
    for code in range(0x7E):
        low, high = decode_e4m3(code), decode_e4m3(code + 1)
        assert low is not None
        assert high is not None
        for q in (low, high):
            cases += 1
            power = pow2(max(exponent_of(q), LEAST)) if q else pow2(LEAST)
            middle = (low + high) / 2
            bad += round_e4m3(middle) == q and abs(middle - q) > c * power
    return Sweep(cases, bad)


@lemma(
    "e4m3-half-unit",
    "|RN8(x) - x| <= 2^e / 16 for |x| <= 464, 2^e <= |RN8(x)| < 2^(e+1), e >= -6; 2^-10 below.",
    topic="cast",
    used_by=(
        "spec.enclosure.stored:e4m3_band",
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds.cast:half_unit",
        "spec.ledger.bounds.constants:E4M3_HALF_UNIT",
    ),
    constant=F(1, 16), control=F(1, 17), sweep=sweep_half_units,
)  # fmt: skip
def _e4m3_half_unit(c: Fraction) -> Sequence[Goal]:
    x, q, power, m = z3.Real("x"), z3.Real("q"), z3.Real("power"), z3.Int("m")
    normal = (
        z3.And(power == rat(pow2(e)), mag(q) >= rat(pow2(e)), mag(q) < rat(pow2(e + 1)))
        for e in range(LEAST, MOST + 1)
    )
    small = z3.And(power == rat(pow2(LEAST)), mag(q) < rat(pow2(LEAST)))
    hypotheses = (within(x, rat(464)), rounds_e4m3(x, q, m), z3.Or(small, *normal))

    def replay(v: Values) -> Outcome:
        x, q = F(v["x"]), round_e4m3(F(v["x"]))
        power = pow2(max(exponent_of(q), LEAST)) if q else pow2(LEAST)
        agrees = q == v["q"] and power == v["power"] and abs(x) <= 464
        return Outcome(agrees, abs(q - x) <= c * power)

    return [Goal("error", hypotheses, within(q - x, rat(c) * power), replay)]


@lemma(
    "carry-shrinks",
    "|t - RN8sat(t)| <= |t|: 0 is an E4M3 value, so a carry is at most what it came from.",
    topic="cast",
    used_by=(
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds.cast:_chain_size",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _carry_shrinks(c: Fraction) -> Sequence[Goal]:
    t, q, m = z3.Real("t"), z3.Real("q"), z3.Int("m")

    def replay(v: Values) -> Outcome:
        t, q = F(v["t"]), round_e4m3(F(v["t"]))
        return Outcome(q == v["q"] and abs(t) < 512, abs(t - q) <= c * abs(t))

    hypotheses = (mag(t) < 512, saturated(t, q, m))
    inside = Goal("below 512", hypotheses, within(t - q, rat(c) * mag(t)), replay)
    beyond = Goal("above", (t >= 512, q == 448), within(t - q, t))
    return [inside, beyond]


@lemma(
    "cast-shrinks",
    "|RN8sat(RN32(y)) - y| <= |y|: a quotient rounded to fp32 is cast to something between 0 and "
    "twice itself, down to the quotients that vanish.",
    topic="cast",
    used_by=(
        "spec.arithmetic.enclosure_numbers:Numbers.scale_down",
        "spec.bounds.columns:column_bound",
        "spec.ledger.bounds.cast:_nearest",
        "spec.ledger.bounds:_CODE",
    ),
    constant=1, control=F(15, 16), timeout=90,
)  # fmt: skip
def _cast_shrinks(c: Fraction) -> Sequence[Goal]:
    y, z, q = z3.Reals("y z q")
    m, n = z3.Ints("m n")
    fp32 = [
        z3.And(mag(y) >= rat(pow2(k)), mag(y) < rat(pow2(k + 1)),
               nearest_even(y * rat(pow2(23 - k)), n), z == z3.ToReal(n) * rat(pow2(k - 23)))
        for k in range(-11, 9)
    ]  # fmt: skip
    below = mag(y) < rat(pow2(-11))
    vanishing = (below, within(z - y, mag(y) * rat(U) + rat(pow2(-150))), saturated(z, q, m))

    def replay(v: Values) -> Outcome:
        y = F(v["y"])
        z = round_f32(y)
        q = round_e4m3(z)
        same = z == v["z"] and q == v["q"] and pow2(-11) <= abs(y) < 511
        return Outcome(same, abs(q - y) <= c * abs(y))

    hypotheses = (mag(y) < 511, z3.Or(*fp32), saturated(z, q, m))
    shrinks = within(q - y, rat(c) * mag(y))
    return [
        Goal("normal", hypotheses, shrinks, replay, guide=(y > 0, y < rat(pow2(-9)))),
        Goal("vanishing", vanishing, within(q - y, mag(y))),
        Goal("beyond", (y >= 511, q == 448), within(q - y, y)),
    ]
