"""The relative errors of a contract's steps, each as a term; closed forms compound them.

With L = scale |q| |k| the largest logit, G = |dO| |V| the largest dP, n keys and D channels:

    logits      fp32: D U and three roundings; wgmma: 2^-13 33 D / 32, and four roundings
    argument    U 2 L: s - b rounds once; windows: and b - R, x - M, at most 32 and 9 more
    function    the exponential
    sum         n U: l, any order
    quotient    1 / l, the product
    codes       1/17 and half an E4M3 subnormal per key of a group, over 448 (offset: over 2^8)

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

from dmverify.spec.bounds.norms import Norms
from dmverify.spec.bounds.term import Term, grown, inverse, total
from dmverify.spec.constants import DEFINITION, constant
from dmverify.spec.contracts import Contract, Windows
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
CODES = ("e4m3-error", "e4m3-error-tiny", "e4m3-double-rounding", "scale-divide-range")
FUNCTION = {"rows": (DEFINITION,), "windows": ("ex2-error",)}


def path(roundings: float) -> float:
    """(1 + U)^k - 1."""
    return grown(roundings * math.log1p(U))


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
        return self._at_least_a_code(self.norms.q) * self._at_least_a_code(self.norms.k)

    @cached_property
    def gradient(self) -> float:
        """G."""
        return self._at_least_a_code(self.norms.do) * self._at_least_a_code(self.norms.v)

    def _at_least_a_code(self, norm: float) -> float:
        """A row's norm, at least one normal code: what a tensor core's error is relative to."""
        least = E4M3_NORMAL * LEAST_AMAX / CODE_MAX
        return max(norm, least) if self.windowed else norm

    @cached_property
    def exact_row(self) -> float:
        """Largest sum of |dS| in a row of exact attention on the reference: 2 G of its operands."""
        if not self.on_inputs:
            return 2 * self.gradient
        given = [
            norm * (1 + self.operand_row) + self.tiny_row for norm in (self.norms.do, self.norms.v)
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

    @cached_property
    def operand(self) -> float:
        """Relative error of an operand's codes, in units of its block's largest magnitude."""
        return RELATIVE + ABSOLUTE / CODE_MAX + TWICE + path(CAST_ROUNDINGS)

    @cached_property
    def do_moved(self) -> float:
        """Largest sum over a row's channels of |dO^ - dO|."""
        floor = ABSOLUTE / CODE_MAX * self.norms.do_max + SUBNORMAL
        spread = (RELATIVE + TWICE + path(CAST_ROUNDINGS)) * self.norms.do_one
        return (spread + self.problem.head_dim * floor) * (1 + path(2))

    @cached_property
    def operand_row(self) -> float:
        """The same for a row's norm, over its channels."""
        spread = math.sqrt(self.problem.head_dim)
        return RELATIVE + spread * ABSOLUTE / CODE_MAX + TWICE + path(CAST_ROUNDINGS)

    @cached_property
    def tiny_row(self) -> float:
        """What a subnormal scale may change in a row's norm, whatever its codes."""
        return math.sqrt(self.problem.head_dim) * SUBNORMAL

    @cached_property
    def code(self) -> float:
        """Sum over the keys of what the cast of P may change, P summing to 1."""
        top = 2.0 ** (P_MAX_EXPONENT - 1) if self.windowed else CODE_MAX
        return RELATIVE + self.schedule.p_group * ABSOLUTE / top + TWICE + path(CAST_ROUNDINGS)

    @cached_property
    def exponent(self) -> tuple[Term, ...]:
        """ln of e over its exact value, up to a factor common to the row."""
        kind = self.schedule.kind
        length = 2 * self.logit + (2 * RESCALE_THRESHOLD if self.windowed else 0)
        calls = 2 if self.windowed else 1
        terms = [
            Term("logits", self.logit * (self.dot(self.problem.head_dim) + path(2)), DOT[kind]),
            Term("argument", U * length * (1 + U), ("rn-error",)),
            Term("function", calls * (EX2 if self.windowed else EXP) * (1 + U), FUNCTION[kind]),
        ]
        if self.on_inputs:
            moved = self.logit * self.operand_row * (2 + self.operand_row)
            tiny = abs(self.problem.scale) * self.tiny_row * (self.norms.q + self.norms.k)
            terms.append(Term("operands q, k", moved + tiny, CODES))
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
        cast = self.code
        if self.normaliser == "codes":
            cast = compounded_ratio(cast)
        lemmas = (*CODES, "window-code") if self.windowed else CODES
        return (*self.probability, Term("codes of P", cast, lemmas))

    @cached_property
    def dp(self) -> tuple[Term, ...]:
        """|dP - dP*|."""
        kind = self.schedule.kind
        error = self.gradient * (self.dot(self.problem.head_dim) + path(2))
        terms = [Term("dP", error, DOT[kind])]
        if self.on_inputs:
            moved = self.gradient * self.operand_row * (2 + self.operand_row)
            moved = moved + self.tiny_row * (self.norms.do + self.norms.v)
            terms.append(Term("operands dO, V", moved, CODES))
        return tuple(terms)

    @cached_property
    def underflow(self) -> float:
        """What subnormal scales and flushed exponentials may take from a row, P summing to 1."""
        return 2 * self.keys * DENORMAL

    @cached_property
    def unit(self) -> float:
        """Upper bound of what one code unit of dS is worth."""
        weight = min(total(self.probability), unit_sum(self))  # of one P, or of all of a row
        largest = 2 * (self.gradient + total(self.dp)) * (1 + weight)
        if not self.windowed:
            return largest / CODE_MAX * (1 + path(2))
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
