"""Number formats as data: E4M3, E5M2, INT8, FP16, BF16, FP32, the tensor core's 14-bit result.

Each offers ``decode(codes)``, ``encode(x)``, ``round(x)`` on numpy arrays and torch tensors, and
``to_fraction(code)``, ``from_fraction(value)`` on exact rationals.

>>> import numpy as np
>>> from dmverify.spec.formats import E4M3
>>> E4M3.encode(np.array([1.0, 17.0, 1000.0], dtype=np.float32)).tolist()
[56, 88, 126]
>>> E4M3.round(np.array([1.0, 17.0, 1000.0], dtype=np.float32)).tolist()
[1.0, 16.0, 448.0]
"""

from dmverify.spec.formats.float_format import FloatFormat, Rounding
from dmverify.spec.formats.instances import (
    BF16,
    E4M3,
    E5M2,
    ELEMENTS,
    FORMATS,
    FP16,
    FP32,
    INT8,
    TC14,
    Element,
)
from dmverify.spec.formats.integer_format import IntegerFormat

__all__ = [
    "BF16",
    "E4M3",
    "E5M2",
    "ELEMENTS",
    "FORMATS",
    "FP16",
    "FP32",
    "INT8",
    "TC14",
    "Element",
    "FloatFormat",
    "IntegerFormat",
    "Rounding",
]
