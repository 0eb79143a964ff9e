"""`ex2.approx.f32`, `lg2.approx.f32` and `rcp.approx.f32`, with and without `.ftz`, in every bit.

With .ftz a subnormal operand is a zero of its sign and a subnormal result is flushed to zero:

ex2  1. |x| in fixed point with 23 fraction bits, truncated, is an integer n and a fraction f.
     2. x < 0: f = 0 gives -n; else -n - 1 and the ones' complement of f.
     3. 2^n times the interpolated 2^f; n >= 128 gives infinity, n < -126 gives 0.
lg2  1. x = 2^n (1 + f); V = n + the interpolated log2(1 + f), cut to 36 fraction bits; V(1) = 0.
     2. V < 0: the ones' complement of V, with a minus sign.
     3. Truncated to 24 significant bits. x < 0 gives NaN, a zero gives -infinity.
rcp  x = 2^n (1 + f): 2^-n times the interpolated 1 / (1 + f). A zero gives infinity of its sign.

Without .ftz, what leaves the normal range is scaled before and after (RN: round to nearest even):

ex2  x < -126: RN(y^2) with y the ex2 of x / 2.
lg2  subnormal x: RN(y - 24) with y the lg2 of 2^24 x.
rcp  subnormal x: 2^24 y with y the rcp of 2^24 x; |x| > 2^126: RN(y / 4) with y the rcp of x / 4.

A NaN gives 0x7FFFFFFF. Source: all 2^32 operands of each of the six, measured on an H200.
"""

from __future__ import annotations

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.lemmas import rests_on
from dmverify.spec.machine.hopper.mufu_interpolator import (
    EX2_TABLE,
    LG2_TABLE,
    RCP_TABLE,
    UNIT_BITS,
    interpolate,
)
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

_HIDDEN = 1 << 23
_MAGNITUDE = _NAN = 0x7FFFFFFF
_SIGN = 1 << 31
_INFINITY = 0x7F800000
_MINUS_INFINITY = _SIGN | _INFINITY
_ONE = 127 << 23
_POWER_126 = 253 << 23  # 2^126
_MINUS_126 = _SIGN | 0x42FC0000
_LG2_FRACTION_BITS = 36
_LG2_DROPPED = 2  # bits of F below 2^-36


@rests_on("ex2-error")
def ex2(x: Array, *, ftz: bool = True) -> Array:
    """2^x as `ex2.approx[.ftz].f32` computes it.

    Args:
        x: float32, any shape.
        ftz: Whether subnormal operands and results are flushed to zero.

    Returns:
        float32, the shape of `x`.

    Raises:
        InputError: Another dtype.

    >>> import numpy as np
    >>> ex2(np.array([0.5, -1.0, -127.0], np.float32)).tolist()
    [1.4142135381698608, 0.5, 0.0]
    """
    bits = _bits(x)
    if ftz:
        return _float(x, _ex2_ftz(bits))
    xp = namespace_of(x)
    deep = (bits > _MINUS_126) & (bits <= _MINUS_INFINITY)
    y = _float(x, _ex2_ftz(xp.where(deep & (bits < _MINUS_INFINITY), bits - _HIDDEN, bits)))
    with np.errstate(under="ignore"):
        return xp.where(deep, y * xp.where(deep, y, 1.0), y)


@rests_on("lg2-error", "lg2-near-one")
def lg2(x: Array, *, ftz: bool = True) -> Array:
    """log2(x) as `lg2.approx[.ftz].f32` computes it.

    Args:
        x: float32, any shape.
        ftz: Whether subnormal operands are zeros.

    Returns:
        float32, the shape of `x`.

    Raises:
        InputError: Another dtype.

    >>> import numpy as np
    >>> lg2(np.array([8.0, 1.0, 0.0], np.float32)).tolist()
    [3.0, 0.0, -inf]
    """
    bits = _bits(x)
    if ftz:
        return _float(x, _lg2_ftz(bits))
    xp = namespace_of(x)
    magnitude = bits & _MAGNITUDE
    small = (magnitude > 0) & (magnitude < _HIDDEN)
    scaled = xp.where(small, x, 0.0) * 2.0**24
    y = _float(x, _lg2_ftz(xp.where(small, _bits(scaled), bits)))
    return xp.where(small, y - 24.0, y)


@rests_on("rcp-error")
def rcp(x: Array, *, ftz: bool = True) -> Array:
    """1/x as `rcp.approx[.ftz].f32` computes it.

    Args:
        x: float32, any shape.
        ftz: Whether subnormal operands and results are flushed to zero.

    Returns:
        float32, the shape of `x`.

    Raises:
        InputError: Another dtype.

    >>> import numpy as np
    >>> rcp(np.array([2.0, -4.0, 0.0], np.float32)).tolist()
    [0.5, -0.25, inf]
    """
    bits = _bits(x)
    if ftz:
        return _float(x, _rcp_ftz(bits))
    xp = namespace_of(x)
    magnitude = bits & _MAGNITUDE
    small = (magnitude > 0) & (magnitude < _HIDDEN)
    large = (magnitude > _POWER_126) & (magnitude < _INFINITY)
    factor = xp.where(small, 2.0**24, xp.where(large, 0.25, 1.0))
    factor = astype(factor, "float32")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        y = _float(x, _rcp_ftz(_bits(x * factor)))
        return xp.where(xp.isnan(y), y, y * factor)


def _ex2_ftz(bits: Array) -> Array:
    """Steps ex2 1 to 3 on int64 bits."""
    xp = namespace_of(bits)
    magnitude, negative = bits & _MAGNITUDE, bits > _MAGNITUDE
    exponent = (magnitude >> 23) - 127
    significand = xp.where(magnitude < _HIDDEN, 0, (magnitude & (_HIDDEN - 1)) | _HIDDEN)
    left, right = xp.clip(exponent, 0, 8), xp.clip(-exponent, 0, 31)
    fixed = (significand << left) >> right
    whole, fraction = fixed >> 23, fixed & (_HIDDEN - 1)
    borrow = negative & (fraction != 0)
    whole = xp.where(negative, -whole, whole) - astype(borrow, "int64")
    fraction = xp.where(borrow, _HIDDEN - 1 - fraction, fraction)
    mantissa = (interpolate(EX2_TABLE, fraction) >> UNIT_BITS) - _HIDDEN
    y = ((whole + 127) << 23) + mantissa
    y = xp.where(whole < -126, 0, xp.where(whole > 127, _INFINITY, y))
    return xp.where(magnitude > _INFINITY, _NAN, y)


def _lg2_ftz(bits: Array) -> Array:
    """Steps lg2 1 to 3 on int64 bits."""
    xp = namespace_of(bits)
    one = 1 << _LG2_FRACTION_BITS
    part = interpolate(LG2_TABLE, bits & (_HIDDEN - 1)) >> _LG2_DROPPED
    value = ((bits >> 23) - 127) * one + part
    value = xp.where(bits == _ONE, 0, value)
    magnitude = xp.where(value < 0, -1 - value, value)
    length = astype(xp.frexp(astype(magnitude, "float64"))[1], "int64")  # 44 bits at most: exact
    kept = (magnitude << xp.clip(24 - length, 0, 63)) >> xp.clip(length - 24, 0, 63)
    y = kept - _HIDDEN + ((length - 1 - _LG2_FRACTION_BITS + 127) << 23)
    y = xp.where(magnitude == 0, 0, xp.where(value < 0, y | _SIGN, y))
    y = xp.where(bits == _INFINITY, _INFINITY, y)
    y = xp.where((bits > _INFINITY), _NAN, y)
    return xp.where((bits & _MAGNITUDE) < _HIDDEN, _MINUS_INFINITY, y)


def _rcp_ftz(bits: Array) -> Array:
    """rcp on int64 bits."""
    xp = namespace_of(bits)
    magnitude, sign = bits & _MAGNITUDE, bits & _SIGN
    mantissa = (interpolate(RCP_TABLE, magnitude & (_HIDDEN - 1)) >> UNIT_BITS) - _HIDDEN
    y = ((253 - (magnitude >> 23)) << 23) + mantissa
    y = xp.where(y < _HIDDEN, 0, y)
    y = xp.where(magnitude < _HIDDEN, _INFINITY, xp.where(magnitude == _INFINITY, 0, y)) | sign
    return xp.where(magnitude > _INFINITY, _NAN, y)


def _bits(x: Array) -> Array:
    """Checked float32 operands as nonnegative int64 bits."""
    xp = namespace_of(x)
    if x.dtype != xp.float32:
        raise InputError(
            f"dtype {x.dtype}",
            rule="the .f32 instructions take float32",
            fix="convert to float32 first, knowing that this rounds",
        )
    x = np.asarray(x) if xp is np else x
    return astype(bitcast(x, "int32"), "int64") & 0xFFFFFFFF


def _float(like: Array, bits: Array) -> Array:
    """int64 bits as float32."""
    xp = namespace_of(like)
    if xp is np:
        return bits.astype(np.uint32).view(np.float32)
    return bitcast(astype(xp.where(bits > _MAGNITUDE, bits - (1 << 32), bits), "int32"), "float32")
