"""One FP8 `wgmma` k32 step, in exact integers, as numbered steps: the readable reference.

For one output element with operands a, b (32 codes each) and accumulator C:

1. Decode: a code is s m 2^(e - p) with an integer significand m of p fraction bits; a subnormal
   code has the smallest normal exponent and a significand below 2^p (it is not normalised).
2. A NaN among a, b or C gives NaN 0x7FFFFFFF; infinities follow IEEE 754 (`wgmma_special`).
3. The 32 products are exact: exponent e_a + e_b, significand in [0, 4) with 6 fraction bits.
4. C is taken with all its significant bits and exponent max(e, -126), or max(e, -14) if it is f16.
5. E is the largest exponent of the nonzero terms; the quantum is q = 2^(E - F).
6. Each of the 33 terms is truncated toward zero to a multiple of q, sign and magnitude.
7. The terms are added exactly, so their order does not matter.
8. f32: a zero sum gives +0, else it is truncated toward zero to 14 significant bits.
   f16: the sum is rounded once, to nearest even, to f16; a zero result is +0.

| parameter | value | refuted |
|---|---|---|
| F, fraction bits kept below the largest exponent | 13 | 12, 14 |
| significant bits of an f32 result | 14 | 24 |
| products that share one E | 32 | 16 |

K > 32 chains steps: D is the next step's C. Instruction shape (n), operand source (registers or
shared memory) and commit groups change no bit.

Source: measured on an H200 (`dmverify.lab.probes`); the same structure is published in
Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (2025), and Xie et al., "MMA-Sim"
(2025). Not covered: sparse `wgmma.sp`, and `mma.sync` with FP8, which sm_90 emulates through fp16
products with other numerics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmverify.spec.formats import FloatFormat
from dmverify.spec.lemmas import rests_on

Int = NDArray[np.int64]
F32 = NDArray[np.float32]
F16 = NDArray[np.float16]

NO_TERM = -(1 << 20)  # exponent of a zero term: below every other, so that it is never the maximum


@dataclass(frozen=True)
class Datapath:
    """Widths of the tensor core's adder; the defaults are the H200's.

    Attributes:
        fraction_bits: F, bits kept below the largest exponent.
        output_bits: Significant bits of an f32 result.
        group: Products that share one largest exponent.
    """

    fraction_bits: int = 13
    output_bits: int = 14
    group: int = 32


H200 = Datapath()


@dataclass(frozen=True)
class Terms:
    """Exact terms: sign * magnitude * 2^(exponent - fraction bits).

    Attributes:
        sign: 1 or -1.
        magnitude: Nonnegative integer significand.
        exponent: Unnormalised exponent, `NO_TERM` for a zero term.
        fraction_bits: Fraction bits of the significand.
    """

    sign: Int
    magnitude: Int
    exponent: Int
    fraction_bits: int

    def truncated(self, largest: Int, fraction_bits: int) -> Int:
        """Step 6: the signed terms in units of 2^(largest - fraction_bits), toward zero."""
        shift = self.exponent - largest + (fraction_bits - self.fraction_bits)
        left, right = np.clip(shift, 0, 62), np.clip(-shift, 0, 62)
        truncated: Int = self.sign * ((self.magnitude << left) >> right)
        return truncated


@dataclass(frozen=True, eq=False)
class Codes:
    """An operand: codes (rows, k), and the format that they are of."""

    codes: NDArray[np.uint8]
    format: FloatFormat


def decoded(codes: NDArray[np.uint8], fmt: FloatFormat) -> Terms:
    """Step 1: finite codes as terms."""
    wide = codes.astype(np.int64)
    field, fraction = (wide & 0x7F) >> fmt.mantissa_bits, wide & ((1 << fmt.mantissa_bits) - 1)
    magnitude = fraction + np.where(field > 0, 1 << fmt.mantissa_bits, 0)
    exponent = np.where(magnitude == 0, NO_TERM, np.maximum(field, 1) - fmt.bias)
    return Terms(1 - 2 * (wide >> 7), magnitude, exponent, fmt.mantissa_bits)


def products(a: Terms, b: Terms) -> Terms:
    """Step 3: the products of a (M, k) and b (N, k), as (M, N, k)."""
    pair = [(x[:, None, :], y[None, :, :]) for x, y in zip(_fields(a), _fields(b), strict=True)]
    (sign_a, sign_b), (mag_a, mag_b), (exp_a, exp_b) = pair
    exponent = np.maximum(exp_a + exp_b, NO_TERM)
    exponent = np.where(mag_a * mag_b == 0, NO_TERM, exponent)
    return Terms(sign_a * sign_b, mag_a * mag_b, exponent, a.fraction_bits + b.fraction_bits)


def _fields(x: Terms) -> tuple[Int, Int, Int]:
    return x.sign, x.magnitude, x.exponent


@dataclass(frozen=True)
class AccumulatorFormat:
    """Bit fields of an accumulator type: integer dtype of its bits, fraction bits, bias."""

    bits: str
    fraction_bits: int
    bias: int


ACCUMULATORS = {
    "float32": AccumulatorFormat("uint32", 23, 127),
    "float16": AccumulatorFormat("uint16", 10, 15),
}


def accumulator(c: F32 | F16) -> Terms:
    """Step 4: finite accumulators as terms; subnormals are not normalised."""
    fmt = ACCUMULATORS[c.dtype.name]
    bits = c.view(fmt.bits).astype(np.int64)
    magnitude_bits, sign_bit = (
        bits & np.iinfo(fmt.bits).max >> 1,
        bits >> np.iinfo(fmt.bits).bits - 1,
    )
    field = magnitude_bits >> fmt.fraction_bits
    fraction = magnitude_bits & ((1 << fmt.fraction_bits) - 1)
    magnitude = fraction + np.where(field > 0, 1 << fmt.fraction_bits, 0)
    exponent = np.where(magnitude == 0, NO_TERM, np.maximum(field, 1) - fmt.bias)
    return Terms(1 - 2 * sign_bit, magnitude, exponent, fmt.fraction_bits)


@rests_on("wgmma-rho-wide", "wgmma-no-overflow")
def finite_sum(p: Terms, c: Terms, datapath: Datapath) -> tuple[Int, Int]:
    """Steps 5 to 7: the sum T and the exponent of its unit, both (M, N)."""
    largest = np.maximum(p.exponent.max(axis=-1), c.exponent)
    kept = datapath.fraction_bits
    total = p.truncated(largest[..., None], kept).sum(axis=-1) + c.truncated(largest, kept)
    return total, np.where(largest == NO_TERM, 0, largest) - kept


def truncated_f32(total: Int, unit: Int, output_bits: int) -> F32:
    """Step 8, f32: T 2^unit with its magnitude truncated to `output_bits` significant bits."""
    magnitude = np.abs(total)
    length = np.frexp(magnitude.astype(np.float64))[1]
    drop = np.maximum(length - output_bits, 0)
    kept = np.sign(total) * ((magnitude >> drop) << drop)
    value: F32 = (np.ldexp(kept.astype(np.float64), unit) + 0.0).astype(np.float32)
    return value


def rounded_f16(total: Int, unit: Int) -> F16:
    """Step 8, f16: T 2^unit rounded once to nearest even; beyond f16's range gives infinity."""
    with np.errstate(over="ignore"):
        return np.ldexp(total.astype(np.float64), unit).astype(np.float16) + np.float16(0)


def finite_step(a: Codes, b: Codes, c: F32 | F16, *, datapath: Datapath = H200) -> F32 | F16:
    """One k32 step (or one of `datapath.group`) on finite operands.

    Args:
        a: (M, 32).
        b: (N, 32).
        c: Accumulator, (M, N); its dtype is the accumulator type.
        datapath: Adder widths, to state (and refute) other hardware.

    Returns:
        D, (M, N), in the dtype of `c`.
    """
    d = c
    for k in range(0, a.codes.shape[1], datapath.group):
        group = slice(k, k + datapath.group)
        p = products(*(decoded(x.codes[:, group], x.format) for x in (a, b)))
        total, unit = finite_sum(p, accumulator(d), datapath)
        if c.dtype == np.float16:
            d = rounded_f16(total, unit)
        else:
            d = truncated_f32(total, unit, datapath.output_bits)
    return d
