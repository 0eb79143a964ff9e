"""What failed elements are, compared with what is due: NaN, zeros, a factor, another row's value.

A trait is told if at least ``SHARE`` of the failed elements have it; NaN, infinity and numbers for
NaN are told of one element too. Values are compared within the bound of the place they belong to
and ``NEAR`` of their size, for the store. These are descriptions, not verdicts: a kernel fails by
its bands, whatever is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log, log2, sqrt

import numpy as np
import numpy.typing as npt

from dmverify.conformance.checks.hull import hull
from dmverify.conformance.pattern import Pattern, Trait
from dmverify.spec.case import F32, F64
from dmverify.spec.enclosure import Band

SHARE = 0.9
NEAR = 2.0**-6
FEW = 4  # elements from which on a factor is no chance
LOOKED_AT = 2**15  # failed elements at the most, spread over all of them
ROWS = (1, -1, 8, -8, 64, -64, 128, -128)  # places along queries or keys
SHIFTS = {
    **dict.fromkeys(("query", "key"), ROWS),
    **dict.fromkeys(("batch", "head", "key head", "channel"), (1, -1)),
}
ADDED = frozenset({"lse"})  # outputs in which a factor of the sum is an addend
FACTORS = {
    "log2(e)": log2(np.e),
    "ln(2)": log(2),
    "448": 448.0,
    "1 / 448": 1 / 448,
    "2^8": 256.0,
    "2^-8": 2.0**-8,
}
ADDENDS = {"8 ln(2), of P's offset 2^8": 8 * log(2), "ln(2)": log(2), "ln(448)": log(448)}

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Failed:
    """Failed elements with what is due.

    Attributes:
        at: Their places, (elements, axes).
        got: What the kernel returned.
        due: The middle of what is allowed.
        room: How far from it they may be.
        nan_due: Where NaN is due.
    """

    at: npt.NDArray[np.intp]
    got: F64
    due: F64
    room: F64
    nan_due: Flags


def describe(output: str, got: F32, band: Band, failed: Flags, *, scale: float = 0.0) -> Pattern:
    """The pattern of the elements of an output that are outside their band.

    Args:
        output: Its name.
        got: What the kernel returned.
        band: What is allowed.
        failed: Which elements are outside; at least one.
        scale: The softmax scale, by which a factor may be named; 0 if it is not known.
    """
    found = hull(output, failed)
    some = _chosen(got, band, failed)
    special = _special(some)
    axes = [span.axis for span in found.where]
    plain = _plain(output, some, band, axes, scale)
    return replace(found, traits=(*special, *plain), error=_error(some))


def _chosen(got: F32, band: Band, failed: Flags) -> _Failed:
    flat = np.flatnonzero(failed)
    step = len(flat) // LOOKED_AT | 1  # odd, so that it meets every channel of every head
    places = np.unravel_index(flat[::step], failed.shape)
    return _Failed(
        np.stack(places, axis=1),
        got[places].astype(np.float64),
        band.mid[places],
        np.maximum(band.below[places], band.above[places]),
        band.must_nan[places],
    )


def _special(some: _Failed) -> Iterator[Trait]:
    """NaN, and numbers that are none."""
    kinds = {
        "nan": np.isnan(some.got) & ~some.nan_due,
        "number": ~np.isnan(some.got) & some.nan_due,
        "infinite": np.isinf(some.got) & np.isfinite(some.due) & ~some.nan_due,
    }
    for kind, flags in kinds.items():
        if flags.any():
            yield Trait(kind, float(flags.mean()))


def _plain(
    output: str, some: _Failed, band: Band, axes: list[str], scale: float
) -> tuple[Trait, ...]:
    """The first that holds of numbers for numbers; without one, to which side they err."""
    both = np.isfinite(some.got) & np.isfinite(some.due) & ~some.nan_due
    if not both.any():
        return ()
    some = _Failed(*(array[both] for array in vars(some).values()))
    makers: tuple[Callable[[], Trait | None], ...] = (
        lambda: _zero(some),
        lambda: _offset(some) if output in ADDED else None,
        lambda: _factor(some, scale),
        lambda: _shifted(some, band, axes),
        lambda: _own_factor(some, axes),
        lambda: _one_sided(some),
    )
    found = (make() for make in makers)
    first = next((trait for trait in found if trait is not None), None)
    return () if first is None else (first,)


def _zero(some: _Failed) -> Trait | None:
    return _if_most("zero", (some.got == 0) & (some.due != 0))


def _offset(some: _Failed) -> Trait | None:
    apart = some.got - some.due
    middle = float(np.median(apart))
    near = np.abs(apart - middle) <= some.room + 1e-5 * np.abs(some.due)
    trait = _if_most("offset", near) if len(apart) >= FEW else None
    return None if trait is None else replace(trait, value=middle, name=_named(middle, ADDENDS))


def _factor(some: _Failed, scale: float) -> Trait | None:
    large = np.abs(some.due) >= np.median(np.abs(some.due))
    large &= some.due != 0
    if large.sum() < FEW:
        return None
    middle = float(np.median(some.got[large] / some.due[large]))
    trait = _if_most("factor", _near(some, middle * some.due, abs(middle)))
    if trait is None or middle == 0 or abs(middle - 1) < NEAR:
        return None
    scales = {"the softmax scale": scale, "1 / the softmax scale": 1 / scale} if scale else {}
    return replace(trait, value=middle, name=_named(middle, scales | FACTORS))


def _own_factor(some: _Failed, axes: list[str]) -> Trait | None:
    """A factor for each head, or each row of channels; an outer axis says more."""
    for axis, kept in (("head", 1), ("row", 0)):
        held = [i for i, name in enumerate(axes) if "head" in name or name == "batch"]
        held += [] if kept else [i for i, name in enumerate(axes) if name in ("query", "key")]
        if len(held) == len(axes):
            continue
        _, group = np.unique(some.at[:, held], axis=0, return_inverse=True)
        group = group.reshape(-1)
        counts = np.bincount(group)
        if len(counts) < 2 or np.median(counts) < FEW:
            continue
        size = np.bincount(group, some.due * some.due)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = (np.bincount(group, some.got * some.due) / size)[group]
        near = _near(some, factor * some.due, np.abs(factor))
        trait = _if_most("own-factor", near & (np.abs(factor - 1) >= NEAR))
        if trait is not None:
            return replace(trait, axis=axis)
    return None


def _shifted(some: _Failed, band: Band, axes: list[str]) -> Trait | None:
    """What is due elsewhere, where that is something else than what is due here."""
    for i, axis in enumerate(axes):
        size = band.mid.shape[i]
        for places in SHIFTS.get(axis, ()):
            if abs(places) >= size:
                continue
            at = some.at.copy()
            at[:, i] = (at[:, i] - places) % size
            there = tuple(at.T)
            due, room = band.mid[there], np.maximum(band.below[there], band.above[there])
            other = np.abs(due - some.due) > 2 * (room + some.room)
            near = np.abs(some.got - due) <= room + NEAR * np.abs(due)
            trait = _if_most("shifted", near & other) if len(due) >= FEW else None
            if trait is not None:
                return replace(trait, value=float(places), axis=axis)
    return None


def _one_sided(some: _Failed) -> Trait | None:
    smaller = np.abs(some.got) < np.abs(some.due)
    return _if_most("smaller", smaller) or _if_most("larger", ~smaller)


def _near(some: _Failed, due: F64, factor: F64 | float) -> Flags:
    return np.asarray(np.abs(some.got - due) <= some.room * factor + NEAR * np.abs(due))


def _if_most(kind: str, flags: Flags) -> Trait | None:
    share = float(flags.mean())
    return Trait(kind, share) if share >= SHARE else None


def _named(value: float, names: dict[str, float]) -> str:
    """What a number is known as."""
    near = (name for name, one in names.items() if abs(value - one) <= NEAR / 4 * abs(one))
    return next(near, "")


def _error(some: _Failed) -> float:
    finite = np.isfinite(some.due) & ~some.nan_due
    due = np.abs(some.due[finite])
    if not due.size or not due.max():
        return float("nan")
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(some.got[finite] - some.due[finite]) / due.max()
    apart = np.where(np.isnan(apart), np.inf, apart)
    return sqrt(float(np.mean(apart**2)) / float(np.mean((due / due.max()) ** 2)))
