"""Integers as a format of codes: what INT8 tensor cores multiply.

A code is the integer itself, from -largest to largest, so that negation is exact; float32 values
round to the nearest one, ties to even, as ``cvt.rni`` does. There is no code for NaN: as a value a
NaN stays NaN, since what it becomes differs from kernel to kernel. Not covered: -128, zero points,
rounding half away from zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.formats.encode import checked_float32
from dmverify.spec.namespace import Array, astype, namespace_of


@dataclass(frozen=True, slots=True)
class IntegerFormat:
    """Signed integers of one byte.

    Attributes:
        name: The name users see, such as ``INT8``.
        largest: The largest magnitude.
    """

    name: str
    largest: int

    @property
    def max_finite(self) -> float:
        """The largest value."""
        return float(self.largest)

    @property
    def code_dtype(self) -> str:
        """Name of the dtype that holds codes."""
        return "int8"

    def round(self, x: Array, *, saturate: bool = True) -> Array:
        """Return float32 ``x`` rounded to an integer, ties to even; NaN stays NaN.

        Args:
            x: Array of any shape, dtype float32.
            saturate: Whether what is beyond becomes the largest integer of that sign, else NaN.

        Raises:
            InputError: Another dtype.

        >>> import numpy as np
        >>> from dmverify.spec.formats import INT8
        >>> INT8.round(np.array([0.5, 1.5, -300.0], dtype=np.float32)).tolist()
        [0.0, 2.0, -127.0]
        """
        x = checked_float32(x)
        xp = namespace_of(x)
        top = self.max_finite
        with np.errstate(invalid="ignore"):
            whole = xp.round(x)
            if saturate:
                return xp.clip(whole, -top, top)
            return xp.where(abs(whole) <= top, whole, xp.nan)

    def encode(self, x: Array, *, saturate: bool = True) -> Array:
        """Return the codes, int8, of float32 ``x`` (see ``round``).

        Raises:
            InputError: Another dtype, or a NaN, which no code stands for.
        """
        values = self.round(x, saturate=saturate)
        if bool((values != values).any()):
            raise InputError(
                "NaN", rule=f"{self.name} has no code for it", fix="replace NaN, or saturate"
            )
        return astype(values, self.code_dtype)

    def decode(self, codes: Array) -> Array:
        """Return the float32 values of int8 ``codes``."""
        return astype(codes, "float32")
