"""Conversions of float32 to E4M3, E5M2 and BF16 codes, in bits.

| target | instruction | overflow |
|---|---|---|
| E4M3 | `cvt.rn.satfinite.e4m3x2.f32` | the largest finite value |
| E5M2 | `cvt.rn.satfinite.e5m2x2.f32` | the largest finite value |
| BF16 | `cvt.rn.bf16x2.f32` | infinity |

Each rounds once, to nearest even; NaN gives the format's NaN; the two lanes do not influence each
other. Source: all 2^32 operands of each, measured on an H200. Not covered: .relu, rounding .rz.
"""

from __future__ import annotations

from dmverify.errors import InputError
from dmverify.spec.formats import BF16, E4M3, E5M2, FloatFormat
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

_SATURATES = {E4M3: True, E5M2: True, BF16: False}


@rests_on("cvt-e4m3", "cvt-bf16", "e4m3-saturation")
def cvt(x: Array, fmt: FloatFormat) -> Array:
    """Codes of float32 `x` as the conversion instruction to `fmt` gives them.

    Args:
        x: float32, any shape.
        fmt: E4M3, E5M2 or BF16.

    Returns:
        Codes of dtype `fmt.code_dtype`, the shape of `x`.

    Raises:
        InputError: Another format or dtype.

    >>> import numpy as np
    >>> cvt(np.array([1.0, 1e9], np.float32), E4M3).tolist()
    [56, 126]
    """
    if fmt not in _SATURATES:
        raise InputError(
            getattr(fmt, "name", fmt),
            rule="Hopper converts float32 to E4M3, E5M2 and BF16",
            fix="pass one of these formats",
        )
    return fmt.encode(x, saturate=_SATURATES[fmt])
