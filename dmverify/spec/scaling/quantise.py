"""Block-scaled numbers: one float32 scale a tile, one code of a format an element.

1. a = amax of the tile (``geometry``).
2. s = the rule's scale of a (``rules``).
3. t = x / s, or x * factor, in float32.
4. code = t rounded to the element format, E4M3 unless said, saturating or not as the rule says.

The quantised number is code * s exactly: at most 8 + 24 significant bits, so a float64 holds it. A
kernel that multiplies them in float32 rounds once more; both forms are offered. A transpose is a
view: the same codes and scales with the axes exchanged, so that both orientations of an operand
share one rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dmverify.errors import ContractError, InputError
from dmverify.spec.formats import E4M3, Element
from dmverify.spec.formats.encode import checked_float32
from dmverify.spec.namespace import Array, astype, namespace_of
from dmverify.spec.scaling.geometry import Tiling, amax, spread
from dmverify.spec.scaling.rules import ScaleRule, get_rule


@dataclass(frozen=True)
class Quantised:
    """A block-scaled matrix, or a batch of them.

    Attributes:
        values: (..., N, D) float32, the value of every code.
        scales: (..., R, C) float32, one per tile.
        tiling: The tiles, R down and C across.
        element: What the codes are numbers of.
    """

    values: Array
    scales: Array
    tiling: Tiling
    element: Element = E4M3

    @cached_property
    def codes(self) -> Array:
        """(..., N, D) uint8, or what the format's codes are: the codes."""
        return self.element.encode(self.values, saturate=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., N, D)."""
        return tuple(self.values.shape)

    @property
    def T(self) -> Quantised:
        """The transpose: (..., D, N), the same codes and scales."""
        return Quantised(
            _swap(self.values), _swap(self.scales), self.tiling.transposed, self.element
        )

    def element_scales(self) -> Array:
        """The scale of every element, an array that broadcasts against (..., N, D)."""
        return spread(self.scales, self.tiling, self.shape)

    def row_scales(self) -> Array:
        """The scale of every row, (..., N).

        Raises:
            ContractError: A row has more than one scale.
        """
        if self.scales.shape[-1] != 1:
            raise ContractError(
                f"{self.scales.shape[-1]} tiles across",
                rule="a row has one scale only if a tile spans all columns",
                fix="use element_scales(), or a tiling with columns=None",
            )
        xp = namespace_of(self.values)
        return xp.broadcast_to(self.element_scales()[..., 0], self.shape[:-1])

    def dequantised(self) -> Array:
        """Code times scale in one float32 multiplication, (..., N, D)."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.values * self.element_scales()

    def exact(self) -> Array:
        """Code times scale without rounding, (..., N, D) float64."""
        with np.errstate(invalid="ignore"):
            return astype(self.values, "float64") * astype(self.element_scales(), "float64")

    def fractions(self) -> npt.NDArray[np.object_]:
        """Code times scale as exact rationals, an object array (..., N, D).

        Raises:
            InputError: A code or scale is NaN or infinite.
        """
        exact = self.exact()
        if not bool(((exact - exact) == 0).all()):
            raise InputError(
                "a NaN or infinite code or scale",
                rule="only finite numbers have a rational value",
                fix="look at .codes and .scales for the tile that is not finite",
            )
        numbers = [Fraction(number) for number in exact.reshape(-1).tolist()]
        out = np.empty(len(numbers), dtype=object)
        out[:] = numbers
        return out.reshape(self.shape)


def quantise(
    x: Array,
    rule: str | ScaleRule,
    *,
    block: int | Tiling | None,
    element: Element = E4M3,
) -> Quantised:
    """Quantise to block-scaled codes.

    Args:
        x: (..., N, D) float32.
        rule: A scale rule or its name.
        block: Rows that share a scale (all columns); None for the whole matrix; or a ``Tiling``.
        element: What the codes are numbers of.

    Raises:
        InputError: Another dtype, fewer than two axes, or NaN or infinity where the rule forbids
            them.
        UnknownNameError: No rule of that name.

    >>> import numpy as np
    >>> x = np.array([[1.0, 448.0], [-3.0, 0.0]], dtype=np.float32)
    >>> quantise(x, "amax", block=1).dequantised().tolist()
    [[1.0, 448.0], [-3.0, 0.0]]
    """
    rule = get_rule(rule) if isinstance(rule, str) else rule
    tiling = block if isinstance(block, Tiling) else Tiling(block)
    x = _checked(x, rule)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # the rules say what then
        largest = amax(x, tiling)
        scales = rule.scales(largest, element)
        factors = rule.factors(largest, element)
        if factors is None:
            scaled = x / spread(scales, tiling, x.shape)
        else:
            scaled = x * spread(factors, tiling, x.shape)
    values = element.round(scaled, saturate=rule.saturate)
    return Quantised(values, scales, tiling, element)


def _checked(x: Array, rule: ScaleRule) -> Array:
    x = checked_float32(x)
    if x.ndim < 2:
        raise InputError(
            f"shape {tuple(x.shape)}",
            rule="an operand is a matrix (..., rows, columns)",
            fix="add an axis, as x[None] does",
        )
    if rule.finite_only and not bool(namespace_of(x).isfinite(x).all()):
        raise InputError(
            "NaN or infinity",
            rule=f"the scale rule {rule.name} takes finite numbers",
            fix="mask or replace them, or use a rule that propagates them",
        )
    return x


def _swap(x: Array) -> Array:
    return namespace_of(x).swapaxes(x, -2, -1)
