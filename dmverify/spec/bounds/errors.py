"""The relative errors of a contract's steps, each as a term; closed forms compound them.

With L = scale |q| |k| the largest logit, G = |dO| |V| the largest dP, n keys and D channels:

    logits      fp32: D U and three roundings; wgmma: 2^-13 33 D / 32, and four roundings
    argument    U 2 L: s - b rounds once; windows: and b - R, x - M, at most 32 and 9 more
    function    the exponential
    sum         n U: l, any order
    quotient    1 / l, the product
    codes       1/17 and half an E4M3 subnormal per key of a group, over 448 (offset: over 2^8;
                codes that are f times e: per key of the row, over f)
    operands    those of their format's row (``rounding``); nothing in BF16

wgmma: with X Y >= sum |p| and >= 2^E (X and Y are the largest of all rows, and at least 2^-6 in
codes: a block's largest code is at least that, or its scale is the least one), a chain of K
products in any order errs by at most 2^-13 X Y (min(K + K / 32, 32 K / 32) + K / 32): a quantum a
product and instruction (lemma wgmma-order-free), or 32 an instruction in all (wgmma-rho-chained),
and 2^-13 B an instruction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from dmverify.spec.attention.operand_casts import operand_casts
from dmverify.spec.bounds.norms import Norms
from dmverify.spec.bounds.term import Term, grown, inverse, total
from dmverify.spec.constants import DEFINITION, constant
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.formats import E4M3
from dmverify.spec.ledger.bounds.constants import (
    CAST_ROUNDINGS,
    CHANNEL_FOLDS,
    EX2_CALLS,
    LEVEL_FACTOR,
    QUAD_CHAIN,
    QUAD_LANES,
    QUOTIENT_ROUNDINGS,
)
from dmverify.spec.ledger.bounds.derived import Derived
from dmverify.spec.ledger.bounds.rounding import Rounding, rounding_of
from dmverify.spec.problem import Problem

(
    U,
    UNDERFLOW_ERROR,
    EXP,
    LOG,
    EX2,
    RESCALE_THRESHOLD,
    CODE_MAX,
    RELATIVE,
    ABSOLUTE,
    TWICE,
    CORE,
    SUBNORMAL,
    RHO_CHAINED,
) = (
    float(constant(name))
    for name in (
        "U",
        "UNDERFLOW_ERROR",
        "EXP",
        "LOG",
        "EX2",
        "RESCALE_THRESHOLD",
        "E4M3_MAX",
        "E4M3_RELATIVE",
        "E4M3_ABSOLUTE",
        "E4M3_TWICE",
        "ORDER_FREE",
        "SUBNORMAL_CAST",
        "RHO_CHAINED",
    )
)
K32 = int(constant("K32"))
LG2 = float(constant("LG2_RELATIVE")) + float(constant("LG2_ABSOLUTE"))
P_MAX_EXPONENT = int(constant("P_MAX_EXPONENT"))
DENORMAL = float(constant("SCALE_DENORMAL"))
NORM_SLACK, LEAST_LEVEL, LEAST_AMAX, E4M3_NORMAL = (
    float(constant(name))
    for name in ("NORM_SLACK", "LEAST_LEVEL", "LEAST_AMAX", "E4M3_SMALLEST_NORMAL")
)

SUMS = ("sum-any-tree", "sum-fma-chain", "rn-error")
DOT = {
    "rows": SUMS,
    "windows": (
        "wgmma-order-free",
        "wgmma-rho-chained",
        "wgmma-partials",
        "wgmma-c-exact",
        "wgmma-no-overflow",
        "promotion-step",
    ),
}
UNIT = "unit"
POWERS = ("amax-power-of-two", "amax-e8m0")  # rules whose scales are powers of two
CODES = ("e4m3-error", "e4m3-error-tiny", "e4m3-double-rounding", "scale-divide-range")
FUNCTION = {"rows": (DEFINITION,), "windows": ("ex2-error",)}


def cast_error(own: Rounding, floor: float) -> float:
    """Relative error of a code of a format, and what half a subnormal of it comes to besides."""
    return 0.0 if own.exact else own.relative + floor + TWICE + path(CAST_ROUNDINGS)


def subnormal(own: Rounding) -> float:
    """What a subnormal scale may change in an element: 4 times the largest such amax."""
    return 0.0 if own.exact else SUBNORMAL / CODE_MAX * own.largest


def path(roundings: float) -> float:
    """(1 + U)^k - 1."""
    return grown(roundings * math.log1p(U))


def codes_of(own: Rounding) -> tuple[str, ...]:
    """What states the error of a cast: E4M3's lemmas, or what the format is."""
    return CODES if own == rounding_of(E4M3) else () if own.exact else (DEFINITION,)


def together(size: float, one: float, other: float) -> float:
    """At least size ((1 + a) (1 + b) - 1): a product is largest where its factors are equal."""
    mean = (one + other) / 2
    return size * mean * (2 + mean)


def compounded_ratio(relative: float) -> float:
    """(1 + r) / (1 - r) - 1: numerator and denominator both err by r."""
    return (1 + relative) * (1 + inverse(relative)) - 1


@dataclass(frozen=True)
class Errors(Derived):
    """Relative errors of one contract on one problem with given norms."""

    contract: Contract
    problem: Problem
    norms: Norms
    reference: str

    @cached_property
    def keys(self) -> int:
        """n."""
        return max(self.problem.keys, 1)

    @cached_property
    def logit(self) -> float:
        """L."""
        return abs(self.problem.scale) * self.raw

    @cached_property
    def raw(self) -> float:
        """The largest product of a query and a key before its scale."""
        return self.at_least_a_code(self.norms.q) * self.at_least_a_code(self.norms.k)

    @cached_property
    def gradient(self) -> float:
        """G."""
        return self.at_least_a_code(self.norms.do) * self.at_least_a_code(self.norms.v)

    def at_least_a_code(self, norm: float) -> float:
        """A norm, at least one normal code: what a tensor core's error is relative to."""
        least = E4M3_NORMAL * LEAST_AMAX / CODE_MAX
        return max(norm, least) if self.windowed else norm

    @cached_property
    def exact_row(self) -> float:
        """Largest sum of |dS| in a row of exact attention on the reference: 2 G of its operands."""
        if not self.on_inputs:
            return 2 * self.gradient
        given = [
            norm * (1 + self.row_of(name)) + self.tiny_row(name)
            for name, norm in (("do", self.norms.do), ("v", self.norms.v))
        ]
        return 2 * math.prod(given)

    @cached_property
    def on_inputs(self) -> bool:
        """Whether the reference is attention on the original inputs."""
        return self.reference == "inputs"

    def dot(self, length: int) -> float:
        """Relative error of a dot, in units of the product of the rows' norms."""
        if not self.windowed:
            return (1 + path(2)) * (1 + length * U) - 1
        instructions = math.ceil(length / K32)
        lost = min(length + instructions, RHO_CHAINED * instructions)
        return CORE * (lost + instructions) + path(2)

    def row(self, extra: int = 0) -> float:
        """Relative error of a sum or dot over the keys."""
        stated, windows = 0, 0.0
        if isinstance(self.schedule, Windows):
            stated = QUAD_CHAIN + QUAD_LANES if self.schedule.row_sum == "quad" else 0
            windows = self.keys / self.schedule.window
        return path(self.keys + stated + windows + 1 + extra)

    @cached_property
    def channels(self) -> float:
        """Relative error of a dot over the channels of O."""
        return path(self.problem.head_dim + CHANNEL_FOLDS + 2)

    @property
    def operand(self) -> float:
        """``operand_of`` dO, which delta reads."""
        return self.operand_of("do")

    def operand_of(self, name: str) -> float:
        """Relative error of an operand's codes, in units of its block's largest magnitude."""
        own = self.roundings[name]
        return cast_error(own, own.absolute * self._step / own.largest)

    @property
    def _step(self) -> int:
        """What a scale may be over amax / largest: a power of two stands above it."""
        return 2 if operand_casts(self.contract)["q"].rule in POWERS else 1

    @cached_property
    def do_moved(self) -> float:
        """Largest sum over a row's channels of |dO^ - dO|."""
        own, one, channels = self.roundings["do"], self.norms.do_one, self.problem.head_dim
        if self.unscaled:  # 1 is every scale: what is beyond the largest number saturates
            moved = own.relative * one + channels * own.absolute
            return (one if one > own.largest else moved) * (1 + path(2))
        floor = own.absolute * self._step / own.largest * self.norms.do_max + subnormal(own)
        spread = cast_error(own, 0.0) * one
        return (spread + channels * floor) * (1 + path(2))

    @property
    def unscaled(self) -> bool:
        """Whether every operand's scale is 1."""
        return operand_casts(self.contract)["q"].rule == UNIT

    def moved(self, x: str, y: str, both: float) -> float:
        """|x y - x^ y^| of rows of two operands; ``both`` bounds the product of their norms."""
        r, s, tiny = self.row_of(x), self.row_of(y), self.tiny_row(x, y)
        first, second = (float(getattr(self.norms, name)) for name in (x, y))
        return together(both, r, s) + tiny * (first * (1 + r) + second * (1 + s) + tiny)

    def row_of(self, name: str) -> float:
        """``operand_of`` for a row's norm: that of its codes, whose error is half a unit of them.

        E4M3: a 16th of a code, where it is a 17th of the number.
        """
        own, spread = self.roundings[name], math.sqrt(self.problem.head_dim)
        floor = spread * own.absolute * self._step / own.largest
        return 0.0 if own.exact else own.half_unit + floor + TWICE + path(CAST_ROUNDINGS + 1)

    def tiny_row(self, *names: str) -> float:
        """What a subnormal scale may change in a row's norm, whatever its codes."""
        most = max(subnormal(self.roundings[name]) for name in names)
        return math.sqrt(self.problem.head_dim) * most

    @cached_property
    def code(self) -> float:
        """Sum over the keys of what the cast of P may change, P summing to 1."""
        if self.p_factor:  # 1 / f rounds, too
            floor = self.keys * ABSOLUTE / self.p_factor
            return RELATIVE + floor + TWICE + path(CAST_ROUNDINGS + 1)
        top = 2.0 ** (P_MAX_EXPONENT - 1) if self.windowed else CODE_MAX
        return RELATIVE + self.schedule.p_group * ABSOLUTE / top + TWICE + path(CAST_ROUNDINGS)

    @cached_property
    def exponent(self) -> tuple[Term, ...]:
        """ln of e over its exact value, up to a factor common to the row."""
        kind, near = self.schedule.kind, self.dot(self.problem.head_dim) + path(2)
        length = 2 * self.logit + (2 * RESCALE_THRESHOLD if self.windowed else 0)
        calls = 2 if self.windowed else 1
        terms = [
            Term("logits", self.logit * near, DOT[kind]),
            Term("argument", U * length * (1 + near), ("rn-error",)),
            Term("function", calls * inverse(EX2 if self.windowed else EXP), FUNCTION[kind]),
        ]
        if self.on_inputs:
            moved = abs(self.problem.scale) * self.moved("q", "k", self.raw)
            terms.append(Term("operands q, k", moved, self.codes_of("q", "k")))
        return tuple(terms)

    @cached_property
    def probability(self) -> tuple[Term, ...]:
        """Relative error of P: numerator and denominator each err by the exponent's."""
        doubled = [Term(term.name, grown(2 * term.value), term.lemmas) for term in self.exponent]
        return (
            *doubled,
            Term("sum", inverse(self.row()), (*SUMS, "relative-inverse")),
            Term("quotient", path(QUOTIENT_ROUNDINGS), ("rn-error", "reciprocal-error")),
        )

    @cached_property
    def weights(self) -> tuple[Term, ...]:
        """Relative error of the forward's P after its cast, as a weighted mean."""
        lemmas = (*CODES, "window-code") if self.windowed else CODES
        if self.normaliser != "codes":
            return (*self.probability, Term("codes of P", self.code, lemmas))
        terms = (*self.probability, Term("codes of P", compounded_ratio(self.code), lemmas))
        if not self.windowed:  # ``probability`` has a sum over the keys in fp32, and they no other
            return terms
        return (*terms, Term("sum of codes", inverse(self.code_sum), DOT[self.schedule.kind]))

    @cached_property
    def code_sum(self) -> float:
        """Relative error of the sum of the codes of P: fp32, or a dot with ones."""
        if not self.windowed:
            return self.row(2)
        width = self.schedule.step(self.keys)
        return (1 + self.dot(width)) * (1 + path(self.keys / width + 2)) - 1

    @cached_property
    def dp(self) -> tuple[Term, ...]:
        """|dP - dP*|."""
        kind = self.schedule.kind
        error = self.gradient * (self.dot(self.problem.head_dim) + path(2))
        terms = [Term("dP", error, DOT[kind])]
        if self.on_inputs:
            moved = self.moved("do", "v", self.gradient)
            terms.append(Term("operands dO, V", moved, self.codes_of("do", "v")))
        return tuple(terms)

    def codes_of(self, *names: str) -> tuple[str, ...]:
        """What states the errors of these casts; what says that there is none is what they are."""
        found = [lemma for name in names for lemma in codes_of(self.roundings[name])]
        return tuple(dict.fromkeys(found)) or (DEFINITION,)

    @cached_property
    def underflow(self) -> float:
        """What subnormal scales and flushed exponentials may take from a row, P summing to 1."""
        return 2 * self.keys * DENORMAL

    @cached_property
    def unit(self) -> float:
        """Upper bound of what one code unit of dS is worth."""
        weight = min(total(self.probability), unit_sum(self))  # of one P, or of all of a row
        largest = 2 * (self.gradient + total(self.dp)) * (1 + weight)
        if self.ds_factor:
            return 1 / self.ds_factor
        if not self.windowed:
            return largest / self.roundings["ds"].largest * (1 + path(2))
        # 2^-kP <= 2 / 448 and 1 / u <= 2 (G + |shift| + |delta|) <= 8 G, norms rounded up
        return 2 * max(LEVEL_FACTOR * largest, LEAST_LEVEL) / CODE_MAX * (1 + NORM_SLACK)


def unit_sum(errors: Errors) -> float:
    """Bound of |1 - B|, B the exact sum of the backward's P."""
    quotient = 2 if errors.windowed else 1
    sums = inverse(errors.row())
    return (1 + drift_of(errors)) * (1 + sums) * (1 + path(quotient)) - 1


def drift_of(errors: Errors) -> float:
    """Relative difference of the two passes' exponentials, weighted by P, at most.

    A key of weight P lies log2(1 / P) below the reference; P log2(1 / P) sums to at most log2 n.
    """
    if not errors.windowed:
        return 0.0
    entropy = math.log2(2 * errors.keys) + 2
    return grown(
        math.log(2) * U * 2 * (2 * entropy + 2 * RESCALE_THRESHOLD) + (EX2_CALLS + 1) * EX2
    )
