"""What a contract leaves open in its online softmax and casts, as sets, in enclosures only.

Where numbers are sets (``a.encloses``) each step below widens them by what a conforming kernel may
do; in every other interpretation it returns its argument, which is one of the allowed choices.

| step | a kernel may | widened by |
|---|---|---|
| exponent s - b | form it in base 2 or e, fused or not, rescale T times | (T + 1) A |
| P in BF16 | round relative to any running maximum | abs(e) 2^-7.9 |
| P in E4M3 | likewise, with 2^8 | max(e / 17, 2^-18) |
| O | multiply by a reciprocal and by scales | abs(O) 2^-20 |
| LSE | any base, one rounding each | 8 U (abs b + abs log l + 1) |
| dS | expand P dP - P delta | 4 U P (abs dP + abs delta) |
| dS in BF16 | round it before or after the softmax scale | abs(dS) 2^-7.9 |
| P of the backward in BF16 | flush what is below 2^-126 to 0 | 2^-126 |
| dK, dV of several query heads in BF16 | round each head's part, then add | sum abs(part) 2^-7.9 |

A = 9 U (X + abs b) + 2^-21, X the row's largest |s|. T: tiles of at least 32 keys. Per maximum:
rounding c and the products (3 U X), the fma (U X), the maximum's product (U X) and their double for
a rescale, which is an exponential of a difference of maxima; ex2 errs by 2^-22.7 (measured over all
inputs), the product with it by U. A running maximum is at most the row's, so a code unit 2^-10 of
2^8 e is at most 2^-18 of the final scale. BF16's error is 2^-8 of a normal number; a sixteenth more
leaves room for float32. Flushing is what CUDA's --use_fast_math does, a flag of FlashAttention's
public build. The parts of query heads are BF16 tensors, summed in a second step, in the public
interface of FlashAttention-2 and in the graph that cuDNN's frontend builds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from dmverify.spec.arithmetic.interface import Arithmetic, Enclosing
from dmverify.spec.attention.products import constant
from dmverify.spec.constants import constant as proved
from dmverify.spec.contracts import Contract, Online
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

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
E4M3_RELATIVE = float(proved("OPEN_E4M3"))
E4M3_ABSOLUTE = float(proved("E4M3_ABSOLUTE") / proved("WINDOW_TOP"))


@rests_on("ex2-argument", "ex2-error", "rn-error")
def argument(a: Arithmetic, contract: Contract, x: Array, b: Array, seen: Array) -> Array:
    """s - b of the exponentials; x is s, (M, W, L)."""
    difference = a.sub(x, b)
    if not _open(a, contract):
        return difference
    size = a.select(a.mask(seen), a.absolute(x), constant(a, 0.0))
    size = a.add(a.max(size, 2), a.absolute(b))
    times = 1 + math.ceil(x.shape[2] / LEAST_TILE)
    reach = a.add(a.mul(size, constant(a, times * ARGUMENT)), constant(a, times * EXPONENTIAL))
    return _allow(a, difference, reach, keep_zero=False)


@rests_on("e4m3-error", "e4m3-error-tiny", "bf16-store")
def running_cast(a: Arithmetic, contract: Contract, e: Array, cast_of: Array) -> Array:
    """P in its format, in units of e; ``cast_of`` is the choice of a known last maximum."""
    if not _open(a, contract) or contract.schedule.p == "unrounded":
        return cast_of
    relative, absolute = {
        "bf16": (BF16_RELATIVE, BF16_ABSOLUTE),
        "e4m3": (E4M3_RELATIVE, E4M3_ABSOLUTE),
    }[contract.schedule.p]
    reach = a.maximum(a.mul(e, constant(a, relative)), constant(a, absolute))
    return a.maximum(_allow(a, e, reach, keep_zero=True), constant(a, 0.0))


@rests_on("two-roundings", "reciprocal-error")
def quotient(a: Arithmetic, contract: Contract, o32: Array) -> Array:
    """O before its store."""
    if not _open(a, contract):
        return o32
    reach = a.mul(a.absolute(o32), constant(a, QUOTIENT)[0])
    return _allow(a, o32, reach, keep_zero=True)


@rests_on("lse-store", "rn-error")
def lse(a: Arithmetic, contract: Contract, b: Array, log_l: Array) -> Array:
    """b + log l, (M, 1)."""
    total = a.add(b, log_l)
    if not _open(a, contract):
        return total
    size = a.add(a.add(a.absolute(b), a.absolute(log_l)), constant(a, 1.0)[0])
    return _allow(a, total, a.mul(size, constant(a, LSE)[0]), keep_zero=False)


@rests_on("rn-error", "bf16-store")
def gradient(
    a: Arithmetic, contract: Contract, ds: Array, p: Array, sizes: tuple[Array, Array]
) -> Array:
    """dS before its cast, and in BF16 its cast too; ``sizes`` are |dP| and |delta|."""
    if not _open(a, contract):
        return ds
    both = a.mul(p, a.add(*sizes))
    reach = a.mul(both, constant(a, EXPANDED))
    if contract.schedule.ds == "bf16":
        rounding = a.mul(a.absolute(ds), constant(a, BF16_RELATIVE))
        reach = a.add(reach, a.add(rounding, constant(a, BF16_ABSOLUTE)))
    return _allow(a, ds, reach, keep_zero=True)


@rests_on("bf16-store")
def flushed(a: Arithmetic, contract: Contract, p: Array) -> Array:
    """P of the backward in BF16, or 0 where it is below the normal numbers."""
    if not _open(a, contract):
        return p
    may_vanish = _allow(a, p, constant(a, BF16_ABSOLUTE), keep_zero=True)
    return a.maximum(may_vanish, constant(a, 0.0))


def rounds_heads(a: Arithmetic, contract: Contract) -> bool:
    """Whether the part of each query head in dK and dV may be rounded before it is added."""
    return _open(a, contract) and contract.schedule.ds == "bf16"


@rests_on("bf16-store")
def head_sum(a: Arithmetic, total: Array, parts: Sequence[Array]) -> Array:
    """dK or dV of a key head, (N, D); ``parts`` are its query heads', in the same units.

    Only where ``rounds_heads`` says so.
    """
    for part in parts:
        rounding = a.mul(a.absolute(part), constant(a, BF16_RELATIVE)[0])
        reach = a.add(rounding, constant(a, BF16_ABSOLUTE)[0])
        total = _allow(a, total, reach, keep_zero=False)
    return total


def _open(a: Arithmetic, contract: Contract) -> bool:
    return a.encloses and isinstance(contract.schedule, Online)


def _allow(a: Arithmetic, x: Array, reach: Array, *, keep_zero: bool) -> Array:
    return cast(Enclosing, a).allow(x, reach, keep_zero=keep_zero)
