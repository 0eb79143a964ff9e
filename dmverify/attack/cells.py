"""Which numbers E4M3 rounds to a code: from half a unit below it to half a unit above.

Numbers here are codes times the scale of their block. A unit is that of the code's binade, so it is
found before the scale, which is no power of two.
"""

from __future__ import annotations

import torch
from torch import Tensor

HALF = 2.0**-4  # half a unit in the last place of E4M3 over its binade
SUBNORMAL = 2.0**-6  # the least binade
NEAR_POWER = 1 + 2.0**-6  # between a power of two and the next code


def half_units(numbers: Tensor, scale: Tensor) -> Tensor:
    """Half a unit in the last place above every number's magnitude.

    Args:
        numbers: Codes times scale.
        scale: Scale of their blocks, positive; broadcast.
    """
    return binades(numbers, scale) * HALF


def half_units_inward(numbers: Tensor, scale: Tensor) -> Tensor:
    """Half a unit towards 0: half as much below a power of two, but for the least."""
    units = half_units(numbers, scale)
    binade = units / HALF
    at_power = (numbers.abs() < binade * NEAR_POWER) & (binade > scale * SUBNORMAL * NEAR_POWER)
    return torch.where(at_power, units / 2, units)


def binades(numbers: Tensor, scale: Tensor) -> Tensor:
    """The power of two at or below each code, at least the subnormals', times the scale."""
    # Codes times scale over scale is off a code by float32's last bits, never by half a unit.
    codes = (numbers / scale).abs() * NEAR_POWER
    return torch.exp2(codes.clamp_min(SUBNORMAL).log2().floor()) * scale
