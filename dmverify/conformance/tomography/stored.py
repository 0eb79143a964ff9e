"""How far a stored number can be from the number before the store, seen from the numbers alone.

A kernel does not say which format its gradients have, so it is read off them:

1. p = largest number of significant bits of any element; g = the largest power of two that divides
   every element. BF16 shows p = 8, FP16 p = 11, E4M3 under a power-of-two scale p = 4.
2. Half a unit of an element x in [2^e, 2^(e+1)) is max(2^(e - p + 1), g) / 2; of a zero g / 2. The
   grain g is at least the format's smallest subnormal, so this is never too small.
3. A tensor of few distinct magnitudes (at most ``FEW``) with many bits is FP8 times a scale that is
   no power of two: scale = largest / c for a code c, if all others are codes too; steps 1 and 2
   then run on the codes. Of several such c the one with the largest units counts. The product of
   code and scale was rounded to float32 too: a half unit grows by ``SAME`` times the element, and
   an element that close below a power of two counts as that power.

It holds for stores to nearest without saturation. Not covered: several scales in one tensor,
stores that truncate; a tensor whose every element happens to need fewer bits than its format has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.case import F32, F64
from dmverify.spec.formats import E4M3, E5M2, FloatFormat

FEW = 127  # E4M3 has 126 positive finite numbers, E5M2 123
ENOUGH = 1024  # so many nonzero elements of so few magnitudes are no coincidence
NARROW = 8  # significant bits of BF16: up to here step 2 needs no scale
SAME = 2.0**-22  # relative: code x scale was rounded to float32 once, and so was its largest
NAMES = {0: "all zero", 3: "3 bits (E5M2)", 4: "4 bits (E4M3)", 8: "8 bits (BF16)"}
FLOAT32_BITS = 24


@dataclass(frozen=True)
class Stored:
    """The format of one tensor.

    Attributes:
        bits: Significant bits, the leading one included; 0 if every element is 0.
        grain: Every element is a multiple of ``grain * scale``.
        scale: What elements are divided by first; 1 unless it is no power of two.
    """

    bits: int
    grain: float
    scale: float = 1.0

    @property
    def name(self) -> str:
        """The format in words: its bits, the format they suggest, the scale."""
        name = NAMES.get(self.bits, f"{self.bits} bits")
        return name if self.scale == 1.0 else f"{name} times {self.scale:.6g}"

    def half_units(self, x: F32) -> F64:
        """The largest error of storing to nearest, of each element; the shape of ``x``."""
        slack = 0.0 if self.scale == 1.0 else SAME
        size = np.abs(x.astype(np.float64)) / self.scale
        exponent = np.frexp(size * (1 + slack))[1] - 1
        unit = np.where(size > 0, np.ldexp(1.0, exponent - self.bits + 1), 0.0)
        return np.asarray((np.maximum(unit, self.grain) / 2 + slack * size) * self.scale)


def detect(x: F32) -> Stored:
    """The format that a tensor was stored in.

    Args:
        x: Finite float32, any shape.

    Raises:
        ContractError: If it looks like FP8 with a scale, and no one scale explains it.
    """
    sizes = np.unique(np.abs(x.astype(np.float64)))
    sizes = sizes[sizes > 0]
    found = _of(sizes)
    if found.bits <= NARROW or len(sizes) > FEW or np.count_nonzero(x) < ENOUGH:
        return found
    scaled = [_scaled(sizes, fmt) for fmt in (E4M3, E5M2)]
    fitting = [one for options in scaled for one in options]
    if not fitting:
        raise ContractError(
            f"{len(sizes)} magnitudes of {found.bits} significant bits",
            rule="so few magnitudes are FP8 codes times one scale",
            fix="let the kernel return gradients with one scale a tensor, or in BF16",
        )
    return max(fitting, key=lambda one: float(one.half_units(sizes.astype(np.float32)).sum()))


def _of(sizes: F64) -> Stored:
    """From positive magnitudes of at most 24 significant bits."""
    if not sizes.size:
        return Stored(0, 0.0)
    mantissa, exponent = np.frexp(sizes)
    digits = np.ldexp(mantissa, FLOAT32_BITS).astype(np.int64)
    trailing = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    bits = int((FLOAT32_BITS - trailing).max())
    return Stored(bits, float(np.ldexp(1.0, exponent - FLOAT32_BITS + trailing).min()))


def _scaled(sizes: F64, fmt: FloatFormat) -> list[Stored]:
    """Every scale under which all magnitudes are numbers of the format."""
    codes = fmt.decode(np.arange(1, fmt.max_code + 1, dtype=np.uint8)).astype(np.float64)
    found = []
    for scale in sizes[-1] / codes:
        near = fmt.round((sizes / scale).astype(np.float32)).astype(np.float64)
        if (np.abs(near * scale - sizes) <= SAME * sizes).all():
            inner = _of(near)
            found.append(Stored(inner.bits, inner.grain, float(scale)))
    return found
