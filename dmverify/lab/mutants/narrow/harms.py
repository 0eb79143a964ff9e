"""What a narrow mutant does to an answer: gross wherever the right answer is not zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from dmverify.spec.case import F32, Outputs

TILE = 64
GRADIENTS = ("dq", "dk", "dv")

Harm = Callable[[Outputs], Outputs]


def _each(names: tuple[str, ...], change: Callable[[F32], F32]) -> Harm:
    """Makes one change of several outputs."""

    def harm(made: Outputs) -> Outputs:
        changed = {name: change(getattr(made, name).copy()) for name in names}
        return replace(made, **changed)

    return harm


def _last_token(x: F32) -> F32:
    x[:, -1:] *= -2
    return x


def _second_tile(x: F32) -> F32:
    x[:, TILE : 2 * TILE] *= -2
    return x


def _last_entry(x: F32) -> F32:
    x[-1:] *= -2
    return x


def _last_head(x: F32) -> F32:
    x[:, :, -1:] *= -2
    return x


def _finite(x: F32) -> F32:
    return np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


HARMS: MappingProxyType[str, Harm] = MappingProxyType(
    {
        "doubled": _each(("o", *GRADIENTS), lambda x: 2 * x),
        "times-minus-3": _each(GRADIENTS, lambda x: -3 * x),
        "rolled-heads": _each(("o", "dq"), lambda x: np.roll(x, 1, axis=2)),
        "last-row": _each(("o", "dq"), _last_token),
        "last-key": _each(("dk", "dv"), _last_token),
        "second-row-tile": _each(("o", "dq"), _second_tile),
        "second-key-tile": _each(("dk", "dv"), _second_tile),
        "last-entry": _each(("o", *GRADIENTS), _last_entry),
        "last-head": _each(("o", *GRADIENTS), _last_head),
        "lse-shift": _each(("lse",), lambda x: x + 1),
        "swallowed": _each(("o", *GRADIENTS), _finite),
    }
)
"""By name. Infinite LSE of dead rows stays what it is, zeros stay zeros: those show nothing."""
