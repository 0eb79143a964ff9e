"""Faults of the casts of P and dS at ties, and of one of the two casts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import Operation, cast_toward_zero, with_operations
from dmverify.lab.mutants.fault import Fault, Plant
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.formats import E4M3, FloatFormat
from dmverify.spec.namespace import Array

Choice = Callable[[Array, Array], Array]
"""``choice(nearer zero, farther)``: which of the two codes a tie goes to."""

WAYS: dict[str, tuple[str, Choice]] = {
    "up": ("up", np.maximum),
    "down": ("down", np.minimum),
    "away": ("away from zero", lambda near, far: far),
    "to-zero": ("toward zero", lambda near, far: near),
}
HIDDEN = "a tie may go either way within the bounds, which hold the numbers beside it too"


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


def _in_forward(cast: Operation) -> Plant:
    return Plant({"forward.encode": with_operations(cast=cast)})


def _in_backward(site: str) -> Callable[[Operation], Plant]:
    return lambda cast: Plant({"backward.cast_tiles": with_operations(cast=_only(site, cast))})


SITES = {
    "p": ("P", "P", _in_forward, on.TIES_P, "bundled"),
    "p-backward": ("P", "the backward's P", _in_backward("p"), on.TIES_P, "bundled"),
    "ds": ("dS", "dS", _in_backward("ds"), on.TIES_DS, "bundled"),
    "zero-sum": (
        "dS", "dS, errors carried,", _in_backward("ds"), on.TIES_DS, "bundled:ds_cast=zero-sum"
    ),
}  # fmt: skip

ROWS = (
    *(
        Fault(
            f"{site}-ties-{way}",
            group,
            f"ties of {what} go {direction} instead of to the even code",
            "bits",
            plant(_tie_going(choice)),
            (case,),
            contract,
            HIDDEN,
        )
        for site, (group, what, plant, case, contract) in SITES.items()
        for way, (direction, choice) in WAYS.items()
    ),
    Fault(
        "p-backward-toward-zero",
        "P",
        "the backward's P alone is rounded toward zero",
        "dv",
        _in_backward("p")(cast_toward_zero),
        (on.GAUSSIAN,),
    ),
)
"""Faults of this part."""
