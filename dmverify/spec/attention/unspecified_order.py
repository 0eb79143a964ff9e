"""What a contract leaves open in its online softmax and casts, as sets, in enclosures only.

Where numbers are sets each step below widens them by what a conforming kernel may do; in every
other interpretation it returns one of the allowed choices (``any_of``).

| step | a kernel may | widened by |
|---|---|---|
| exponent s - b | form it in base 2 or e, fused or not, rescale T times | (T + 1) A |
| P in BF16 | round relative to any running maximum | abs(e) 2^-7.9 |
| P in E4M3 | likewise, times f = ``p_scale`` | max(e / 17, 2^-10 / 2^floor(log2 f)) |
| codes that stand for code / f | multiply by 1 / f or divide, each or their sum | 4 U |
| O | multiply by a reciprocal and by scales | abs(O) 2^-20 |
| LSE | any base, one rounding each | 8 U (abs b + abs log l + 1) |
| dS | expand P dP - P delta | 4 U P (abs dP + abs delta) |
| dS in BF16 | round it before or after the softmax scale | abs(dS) 2^-7.9 |
| P of the backward in BF16 | flush what is below 2^-126 to 0 | 2^-126 |
| dK, dV of several query heads in BF16 | round each head's part, then add | sum abs(part) 2^-7.9 |

A = 9 U (X + abs b) + 2^-21, X the row's largest |s|. T: tiles of at least 32 keys. Per maximum:
rounding c and the products (3 U X), the fma (U X), the maximum's product (U X) and their double for
a rescale, which is an exponential of a difference of maxima; ex2 errs by 2^-22.7 (measured over all
inputs), the product with it by U. A running maximum is at most the row's, so half a code's unit,
2^-10, is at most 2^-10 / f of the final scale. BF16's error is 2^-8 of a normal number; a sixteenth
more leaves room for float32. Flushing is what CUDA's --use_fast_math does, a flag of
FlashAttention's public build. The parts of query heads are BF16 tensors, summed in a second step,
in the public interface of FlashAttention-2 and in the graph that cuDNN's frontend builds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import cast

from dmverify.spec.arithmetic.interface import Enclosing
from dmverify.spec.attention.num import Flags, Num, any_of, largest, maximum, where
from dmverify.spec.constants import constant as proved
from dmverify.spec.contracts import Online, Rows
from dmverify.spec.lemmas import rests_on

LEAST_TILE = int(proved("LEAST_TILE"))
ARGUMENT, EXPONENTIAL, QUOTIENT, LSE, EXPANDED = (
    float(proved(name))
    for name in (
        "OPEN_ARGUMENT",
        "OPEN_EXPONENTIAL",
        "OPEN_QUOTIENT",
        "OPEN_LSE",
        "OPEN_EXPANDED",
    )
)
BF16_RELATIVE, BF16_ABSOLUTE = (
    float(proved(name)) for name in ("OPEN_BF16", "FP32_SMALLEST_NORMAL")
)
E4M3_RELATIVE, E4M3_ABSOLUTE = (float(proved(name)) for name in ("OPEN_E4M3", "E4M3_ABSOLUTE"))
UNIT, UNDERFLOW = (float(proved(name)) for name in ("OPEN_UNIT", "UNDERFLOW_ERROR"))
RELATIVE = MappingProxyType({"bf16": BF16_RELATIVE, "e4m3": E4M3_RELATIVE})
"""By the format of the forward's P, its relative error."""


@rests_on("ex2-argument", "ex2-error", "rn-error")
def widen_exponent(s: Num, b: Num, seen: Flags) -> Num:
    """s - b of the exponentials, (M, N)."""
    difference = s - b

    def reach() -> Num:
        size = largest(where(seen, abs(s), 0.0), 1) + abs(b)
        times = 1 + math.ceil(s.shape[1] / LEAST_TILE)
        return size * (times * ARGUMENT) + times * EXPONENTIAL

    return _widened(difference, reach, keep_zero=False)


@rests_on("e4m3-error", "e4m3-error-tiny", "bf16-store")
def widen_code(fmt: str, e: Num, choice: Num, factor: int) -> Num:
    """P in its format, in units of e; ``choice`` is that of a known last maximum.

    E4M3 codes are ``factor`` times e.
    """
    relative, absolute = RELATIVE[fmt], BF16_ABSOLUTE
    if fmt == "e4m3":
        absolute = E4M3_ABSOLUTE / (1 << factor.bit_length() - 1)

    def allowed() -> Num:
        reach = maximum(e * relative, absolute)
        return maximum(_allow(e, reach, keep_zero=True), 0.0)

    return any_of(choice, allowed)


@rests_on("rn-error")
def widen_unit(unit: Num, factor: int) -> Num:
    """What codes are multiplied with that are ``factor`` times the numbers."""
    if factor & (factor - 1) == 0:
        return unit  # a power of two: nothing rounds
    return _widened(unit, lambda: unit * UNIT, keep_zero=True)


@rests_on("two-roundings", "reciprocal-error")
def widen_output(o32: Num) -> Num:
    """O before its store."""
    return _widened(o32, lambda: abs(o32) * QUOTIENT, keep_zero=True)


@rests_on("lse-store", "rn-error")
def widen_lse(b: Num, log_l: Num) -> Num:
    """b + log l, (M, 1)."""
    return _widened(b + log_l, lambda: (abs(b) + abs(log_l) + 1.0) * LSE, keep_zero=False)


@rests_on("rn-error", "bf16-store")
def widen_ds(fmt: str, ds: Num, p: Num, sizes: tuple[Num, Num]) -> Num:
    """dS before its cast, and in BF16 its cast too; ``sizes`` are |dP| and |delta|."""

    def reach() -> Num:
        expanded = p * (sizes[0] + sizes[1]) * EXPANDED
        if fmt != "bf16":
            return expanded
        return expanded + (abs(ds) * BF16_RELATIVE + BF16_ABSOLUTE)

    return _widened(ds, reach, keep_zero=True)


@rests_on("bf16-store")
def widen_p(p: Num) -> Num:
    """P of the backward in BF16, or 0 where it is below the normal numbers."""

    def allowed() -> Num:
        return maximum(_allow(p, p.of(BF16_ABSOLUTE), keep_zero=True), 0.0)

    return any_of(p, allowed)


def rounds_heads(schedule: Rows | Online) -> bool:
    """Whether the part of each query head in dK and dV may be rounded before it is added."""
    return schedule.ds == "bf16"


@rests_on("bf16-store")
def widen_heads(whole: Num, parts: Iterable[Num]) -> Num:
    """dK or dV of a key head, (N, D); ``parts`` are its query heads', in the same units.

    Only where ``rounds_heads`` says so.
    """

    def allowed() -> Num:
        found = whole
        for part in parts:
            found = _allow(found, abs(part) * BF16_RELATIVE + BF16_ABSOLUTE, keep_zero=False)
        return found

    return any_of(whole, allowed)


@rests_on("rn-error-subnormal")
def widen_scaled(dk: Num, heads: int) -> Num:
    """dK of a key head, (N, D), where its query heads' parts may be scaled before they are added.

    What each part's rounding loses below float32's normal numbers, no other step does; stores that
    are narrower than float32 hide it, and ``heads`` is then 0.
    """
    if not heads:
        return dk
    return _widened(dk, lambda: dk.of(heads * UNDERFLOW), keep_zero=True)


def _widened(x: Num, reach: Callable[[], Num], *, keep_zero: bool) -> Num:
    return any_of(x, lambda: _allow(x, reach(), keep_zero=keep_zero))


def _allow(x: Num, reach: Num, *, keep_zero: bool) -> Num:
    return Num(cast(Enclosing, x.a).allow(x.array, reach.array, keep_zero=keep_zero), x.a)
