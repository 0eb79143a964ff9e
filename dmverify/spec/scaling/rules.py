"""Scale rules: from the amax a of a tile to its scale s and to the number that is rounded.

All operations are float32, rounded to nearest even, subnormals kept (div.rn, mul.rn).

| rule | scale | a = 0 | rounded number | cast | used by |
|---|---|---|---|---|---|
| amax | a / 448 | s = 1 | x / s | NaN above 464 | article, upstream |
| amax-clamped | a' / 448, a' = max(a, 2^-100) | s = 1 | x * (448 / a') | saturates | bundled |
| amax-power-of-two | 2^-k, largest k with a' 2^k <= 448 | s = 1 | x 2^k | saturates | per tensor |
| amax-e8m0 | 2^-k, largest k <= 127 with a 2^k <= 448 | s = 1 | x / s | saturates | MXFP8 |
| unit | 1 | s = 1 | x | saturates | caches and weights of a known range |
| given | a' / 448 | s = 1 | x / s | saturates | kernels that get codes and scales, made so |

448 stands for the largest number of the operand's format: 57,344 in E5M2, 127 in INT8.

A tile of zeros has s = 1 and factor 1, so its codes are its zeros, signs kept.

Tiny amax. ``amax`` has no floor: s is 0 for a <= 7 * 2^-144 and subnormal below 1.75 * 2^-118,
where x / s reaches 671 and the cast gives NaN. That NaN is part of the rule: it is what the
published simulation does, and it ends real training runs. ``amax-clamped`` and
``amax-power-of-two`` keep a away from there, and a division by a power of two is exact there too.

NaN and infinity. A NaN makes its tile's amax, scale and codes NaN. An infinity makes the scale
infinite; its own code is NaN and the others are zero; under ``unit`` each is alone, and an infinity
saturates. The rules of powers of two refuse both: a
driver that computed its exponent from them would have no meaningful answer; so does ``given``.

Sources: the simulation recipe of "Delta-Matching" (amax); the scales that per-tensor kernels are
driven with (amax-power-of-two); for amax-e8m0 the scale format E8M0 of the OCP Microscaling Formats
specification 1.0, 2^-127 to 2^127, rounded up from amax / 448 as Transformer Engine does, so that
nothing saturates. Under ``given`` the caller of a kernel quantises, by this rule unless codes and
scales are brought along. Not covered: delayed scaling; the rule of that specification's section
6.3, which rounds down and saturates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dmverify.errors import InputError, unknown_name
from dmverify.spec.exponents import LARGEST_FIT, max_shift
from dmverify.spec.formats import E4M3, Element
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array, bitcast, namespace_of

E8M0_BIAS = 127  # its scales are 2^-127 to 2^127
AMAX_FLOOR = 2.0**-100  # 448 / a' and a' / 448 stay normal down to here


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """One row of the table above.

    Attributes:
        name: What contracts call it.
        floor: The smallest amax that is used; 0 for none.
        scale: Maps an amax and the largest number of a format to a scale.
        reciprocal: Maps them to the factor that elements are multiplied by; None divides them by
            the scale.
        saturate: Whether codes saturate at the largest number.
        finite_only: Whether NaN and infinity are refused.
    """

    name: str
    floor: float
    scale: Callable[[Array, float], Array]
    reciprocal: Callable[[Array, float], Array] | None
    saturate: bool
    finite_only: bool

    def scales(self, amax: Array, element: Element = E4M3) -> Array:
        """Return the scale of every tile: float32, the shape of ``amax``."""
        return _one_where_zero(amax, self.scale(self._floored(amax), element.max_finite))

    def factors(self, amax: Array, element: Element = E4M3) -> Array | None:
        """Return what elements are multiplied by, or None if they are divided by the scale."""
        if self.reciprocal is None:
            return None
        return _one_where_zero(amax, self.reciprocal(self._floored(amax), element.max_finite))

    def _floored(self, amax: Array) -> Array:
        return amax.clip(self.floor)


def fitting_exponent(
    amax: Array, *, limit: int = LARGEST_FIT, most: float = E4M3.max_finite
) -> Array:
    """Return the largest integer k <= limit with amax * 2^k <= 448; 0 where amax is 0.

    Args:
        amax: float32 >= 0, finite.
        limit: The largest k, 100 unless said.
        most: What stands for 448.

    Returns:
        int32, the shape of ``amax``.

    Raises:
        InputError: Another dtype, or a negative, infinite or NaN amax.

    >>> import numpy as np
    >>> fitting_exponent(np.array([448, 449, 1, 0], dtype=np.float32)).tolist()
    [0, -1, 8, 0]
    """
    xp = namespace_of(amax)
    if amax.dtype != xp.float32 or not bool(((amax >= 0) & (amax < xp.inf)).all()):
        raise InputError(
            f"amax of dtype {amax.dtype} with a value outside [0, inf)",
            rule="an amax is a finite float32 that is not negative",
            fix="take the largest magnitude of finite float32 values",
        )
    return max_shift(amax, most, limit=limit)


def get_rule(name: str) -> ScaleRule:
    """Return the scale rule of that name.

    Raises:
        UnknownNameError: There is none.
    """
    if name in SCALE_RULES:
        return SCALE_RULES[name]
    raise unknown_name("scale rule", name, SCALE_RULES)


def _one_where_zero(amax: Array, number: Array) -> Array:
    return namespace_of(amax).where(amax == 0, 1.0, number)


@rests_on("rn-equivariance", "e4m3-equivariance")
def _power(exponent: Array) -> Array:
    """2^exponent as float32, for normal results."""
    return bitcast((exponent + 127) << 23, "float32")


@rests_on("scale-divide-range", "scale-zero", "scale-denormal", "scale-tiny-overshoot")
def _divide(amax: Array, most: float) -> Array:
    return amax / _full(amax, most)


@rests_on("scale-inverse-range")
def _divide_inverse(amax: Array, most: float) -> Array:
    return _full(amax, most) / amax


def _full(amax: Array, most: float) -> Array:
    # An array, since torch turns a division with a Python number into a product with a reciprocal.
    return namespace_of(amax).full_like(amax, most)


def _negative_power(amax: Array, most: float) -> Array:
    return _power(-fitting_exponent(amax, most=most))


def _positive_power(amax: Array, most: float) -> Array:
    return _power(fitting_exponent(amax, most=most))


def _e8m0(amax: Array, most: float) -> Array:
    xp = namespace_of(amax)
    exponent = fitting_exponent(amax, limit=E8M0_BIAS, most=most)
    return xp.ldexp(xp.ones_like(amax), -exponent)  # 2^-127 too


def _one(amax: Array, most: float) -> Array:
    return namespace_of(amax).ones_like(amax)


SCALE_RULES = {
    rule.name: rule
    for rule in (
        ScaleRule("amax", 0.0, _divide, None, saturate=False, finite_only=False),
        ScaleRule(
            "amax-clamped", AMAX_FLOOR, _divide, _divide_inverse, saturate=True, finite_only=False
        ),
        ScaleRule(
            "amax-power-of-two",
            AMAX_FLOOR,
            _negative_power,
            _positive_power,
            saturate=True,
            finite_only=True,
        ),
        ScaleRule("amax-e8m0", 0.0, _e8m0, None, saturate=True, finite_only=True),
        ScaleRule("unit", 0.0, _one, None, saturate=True, finite_only=False),
        ScaleRule("given", AMAX_FLOOR, _divide, None, saturate=True, finite_only=True),
    )
}
"""Every scale rule by name."""
