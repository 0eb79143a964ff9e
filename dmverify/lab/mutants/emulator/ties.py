"""Mutants of the casts of P and dS at ties, and of one of the two casts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import Operation, cast_toward_zero, with_operations
from dmverify.lab.mutants.emulator.mutation import Mutation
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.formats import E4M3, FloatFormat
from dmverify.spec.namespace import Array

Choice = Callable[[Array, Array], Array]
"""``choice(nearer zero, farther)``: which of the two codes a tie goes to."""

WAYS: dict[str, Choice] = {
    "up": np.maximum,
    "down": np.minimum,
    "away": lambda near, far: far,
    "to-zero": lambda near, far: near,
}


def _tie_going(choice: Choice) -> Operation:
    """A cast that differs where a number is halfway between two E4M3 numbers, and nowhere else."""

    def cast(base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool) -> Array:
        near, far = (
            base.cast(np.nextafter(x, end), fmt, site=site, saturate=saturate)
            for end in (np.float32(0), np.copysign(np.float32(np.inf), x))
        )
        tie = (near != far) & (np.abs(x - near) == np.abs(far - x))
        even = base.cast(x, fmt, site=site, saturate=saturate)
        return np.where(tie & (fmt is E4M3), choice(near, far), even)

    return cast


def _only(site: str, cast: Operation) -> Operation:
    def changed(base: Arithmetic, *args: Any, **named: Any) -> Array:
        due: Array = base.cast(*args, **named)
        return cast(base, *args, **named) if named["site"] == site else due

    return changed


def _in_forward(cast: Operation) -> Mutation:
    return Mutation({"windows.encode": with_operations(cast=cast)})


def _in_backward(site: str) -> Callable[[Operation], Mutation]:
    return lambda cast: Mutation({"windows.by_exponent": with_operations(cast=_only(site, cast))})


SITES = {
    "p": _in_forward,
    "p-backward": _in_backward("p"),
    "ds": _in_backward("ds"),
    "zero-sum": _in_backward("ds"),
}

MUTATIONS = {
    **{
        f"{site}-ties-{way}": mutation(_tie_going(choice))
        for site, mutation in SITES.items()
        for way, choice in WAYS.items()
    },
    "p-backward-toward-zero": _in_backward("p")(cast_toward_zero),
}
"""By the mutant's id."""
