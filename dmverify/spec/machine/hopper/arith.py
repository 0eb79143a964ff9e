"""float32 arithmetic by PTX name, in bits: add, mul, fma, div, rcp, sqrt (all .rn) and max.

1. .ftz: a subnormal operand becomes a zero of its sign.
2. The exact result is rounded once to float32, to nearest even. A NaN result is 0x7FFFFFFF.
3. .ftz: a result is flushed to a zero of its sign if, rounded to 24 bits with no lower exponent
   limit, it is below 2^-126; so (1 - 2^-24) 2^-126 is flushed, though float32 rounds it to 2^-126.
4. max returns the operand that is a number if the other is NaN, NaN 0x7FFFFFFF if both are, and
   takes +0 as larger than -0.

numpy and torch add and divide in one rounding; a product is exact in float64. Neither has fma:

    p = x y           exact in float64 (48 bits)
    s + t = p + z     exactly (TwoSum)
    round s to odd    if t is not 0, s becomes the neighbour toward t with an odd last bit, or stays
    round to float32  once: 53 bits rounded to odd keep everything that 24 bits need

Round to odd then to nearest is right from 24 + 2 bits on (Boldo and Melquiond, "Emulation of FMA
and Correctly Rounded Sums", IEEE Trans. Comput. 57, 2008); subnormal results need fewer bits still.

Source: PTX ISA 9.0, "Floating Point Instructions"; operands recorded on an H200. Not covered: other
rounding modes, .sat, and max with .NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

_TINY = 2.0**-126 * (1 - 2.0**-25)  # rounds to 2^-126 in 24 bits; as a float32 it is 2^-126
_NAN = 0x7FFFFFFF


def add(x: Array, y: Array, *, ftz: bool = False) -> Array:
    """`add.rn[.ftz].f32` on float32 arrays that broadcast; raises InputError on another dtype."""
    return _rounded_once(operator.add, x, y, ftz=ftz)


def mul(x: Array, y: Array, *, ftz: bool = False) -> Array:
    """`mul.rn[.ftz].f32` on float32 arrays that broadcast; raises InputError on another dtype."""
    return _rounded_once(_product, x, y, ftz=ftz)


def div(x: Array, y: Array, *, ftz: bool = False) -> Array:
    """`div.rn[.ftz].f32` on float32 arrays that broadcast; raises InputError on another dtype."""
    return _rounded_once(operator.truediv, x, y, ftz=ftz)


def rcp_rn(x: Array, *, ftz: bool = False) -> Array:
    """`rcp.rn[.ftz].f32` on a float32 array; raises InputError on another dtype."""
    return _rounded_once(operator.truediv, namespace_of(x).ones_like(x), x, ftz=ftz)


def sqrt(x: Array, *, ftz: bool = False) -> Array:
    """`sqrt.rn[.ftz].f32` on a float32 array; raises InputError on another dtype."""
    return _rounded_once(_sqrt, x, ftz=ftz)


def fma(x: Array, y: Array, z: Array, *, ftz: bool = False) -> Array:
    """`fma.rn[.ftz].f32`: x y + z in one rounding.

    Args:
        x: float32, any shape that broadcasts.
        y: float32.
        z: float32.
        ftz: Whether subnormal operands and results are flushed to zero.

    Raises:
        InputError: Another dtype.

    >>> import numpy as np
    >>> x = np.float32(1 + 2**-12)
    >>> float(fma(x, x, np.float32(-1 - 2**-11)))
    5.960464477539063e-08
    """
    return _rounded_once(_fma, x, y, z, ftz=ftz)


def maximum(x: Array, y: Array, *, ftz: bool = False) -> Array:
    """`max[.ftz].f32` on float32 arrays that broadcast; raises InputError on another dtype."""
    return _rounded_once(_maximum, x, y, ftz=ftz)


def _rounded_once(operation: Callable[..., Array], *operands: Array, ftz: bool) -> Array:
    """Steps 1 to 3 around an operation that gives a float32, or a float64 still to be rounded."""
    xp = namespace_of(operands[0])
    for x in operands:
        if x.dtype != xp.float32:
            raise InputError(
                f"dtype {x.dtype}",
                rule="the .f32 instructions take float32",
                fix="convert to float32 first, knowing that this rounds",
            )
    with np.errstate(all="ignore"):
        inputs = [_flushed(xp, x) if ftz else x for x in operands]
        result = operation(*inputs)
        result = astype(_flushed(xp, result) if ftz else result, "float32")
    return xp.where(xp.isnan(result), _canonical_nan(xp, result), result)


def _flushed(xp: Any, x: Array) -> Array:
    """What is below the normal range as zeros of its sign."""
    return xp.where(abs(x) < _TINY, x * 0.0, x)


def _canonical_nan(xp: Any, like: Array) -> Array:
    bits = xp.asarray(_NAN, dtype=xp.int32, device=like.device)
    return bits.view(xp.float32)


def _maximum(x: Array, y: Array) -> Array:
    """Step 4; the sum of two zeros is -0 only if both are."""
    xp = namespace_of(x)
    number = xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.maximum(x, y)))
    return xp.where((x == 0) & (y == 0), x + y, number)


def _sqrt(x: Array) -> Array:
    """A float64 root: torch's float32 root is off by one on CPUs.

    The root of 24 bits stays 2^-50 away from every float32 midpoint, so that even an error of two
    last places of float64 leaves its rounding to float32 right.
    """
    return namespace_of(x).sqrt(astype(x, "float64"))


def _product(x: Array, y: Array) -> Array:
    """x y, exact in float64."""
    return astype(x, "float64") * astype(y, "float64")


def _fma(x: Array, y: Array, z: Array) -> Array:
    """x y + z in float64, rounded to odd."""
    xp = namespace_of(x)
    product = _product(x, y)
    addend = astype(z, "float64")
    total = product + addend
    shifted = total - product
    error = (product - (total - shifted)) + (addend - shifted)
    return _to_odd(xp, total, error)


def _to_odd(xp: Any, total: Array, error: Array) -> Array:
    """`total` + `error` rounded to odd: of the two float64 around an inexact sum, the odd one."""
    bits = bitcast(total, "int64")
    inexact = (error != 0) & xp.isfinite(total) & xp.isfinite(error)
    outward = (error > 0) == (total > 0)
    even = (bits & 1) == 0
    step = xp.where(outward, 1, -1)
    return bitcast(xp.where(inexact & even, bits + step, bits), "float64")
