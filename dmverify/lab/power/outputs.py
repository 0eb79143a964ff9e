"""Errors in what a kernel returns: an element, a factor, a NaN, a dead row, a format, one bit.

The element that is moved is the median by size of those that are finite, so that neither a large
nor a tiny one is chosen by luck. What a kernel stores in BF16 is rounded again. Where an output is
what rounding leaves of a sum that cancels, an element is moved by a part of what did cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.conformance.evidence import Evidence
from dmverify.lab.power.deviation import Deviation, NothingToPlantError, Plant
from dmverify.lab.power.subject import Subject, of_answer
from dmverify.spec.attention.stores import STORED
from dmverify.spec.case import F32, F64, Internals
from dmverify.spec.formats import BF16

ELEMENT = 0.05  # of the output's root mean square; what E4M3 alone costs O is less
FACTOR = 0.02  # half a step of E4M3 is 0.06, and averages out over a row
LSE = 1e-3  # a probability off by a thousandth
DELTA = 0.01  # of delta's root mean square; dS loses as much
DOUBLED = 1.0
DRIFT = 0.25  # four times what the cast of dS may leave of abs(dS)

CANCELLING = {"delta": "", "dq": "k", "dk": "q"}
"""Outputs that are sums of what may cancel, and the tensor that multiplies them."""
NOISE = 2.0**-10  # of what does not cancel: products of BF16 numbers summed by a tensor core

Change: TypeAlias = Callable[[Subject, str, float], F32]
"""``change(subject, name of an output, size)``: the output with the error."""


def median_at(array: F32) -> tuple[int, ...]:
    """Index of the median by size of the elements that are finite and not 0, or else finite.

    Raises:
        NothingToPlantError: If there is none.
    """
    for fits in (np.isfinite(array) & (array != 0), np.isfinite(array)):
        places = np.argwhere(fits)
        if len(places):
            order = np.argsort(np.abs(array[fits]), kind="stable")
            return tuple(int(i) for i in places[order[len(order) // 2]])
    raise NothingToPlantError("no element is finite" if array.size else "there is no element")


def root_mean_square(array: F32 | F64) -> float:
    """Root mean square of what is finite and not 0; 0 if nothing is."""
    wide = array[np.isfinite(array) & (array != 0)].astype(np.float64)
    if not wide.size:
        return 0.0
    largest = float(np.abs(wide).max(initial=0.0))
    return largest * float(np.sqrt(np.mean((wide / largest) ** 2)))


def stored(name: str, array: F32) -> F32:
    """An output in its format."""
    return BF16.round(array, saturate=False) if name in STORED else array


def moved(name: str, array: F32, by: float) -> F32:
    """One element moved, away from 0."""
    new, at = array.copy(), median_at(array)
    with np.errstate(over="ignore"):
        new[at] = np.float32(new[at] + np.copysign(by, new[at]))
    return stored(name, new)


def next_bits(name: str, array: F32) -> F32:
    """One element moved to the next number of its format."""
    new, at = array.copy(), median_at(array)
    new.view(np.uint32)[at] += np.uint32(0x10000 if name in STORED else 1)
    return new


def array_of(subject: Subject, name: str) -> F32:
    """An output of the right answer."""
    found: F32 = getattr(subject.outputs, name)
    return found


def _plant(name: str, change: Change) -> Plant:
    def plant(subject: Subject, size: float) -> Evidence:
        wrong = change(subject, name, size)
        return of_answer(subject, replace(subject.outputs, **{name: wrong}))

    return plant


def sized(subject: Subject, name: str) -> float:
    """Root mean square of an output that an error may be a part of.

    Raises:
        NothingToPlantError: If it is 0, or is what rounding leaves of a sum that cancels.
    """
    size = root_mean_square(array_of(subject, name))
    if not size:
        raise NothingToPlantError(f"{name} is 0 everywhere")
    if size < NOISE * uncancelled(subject, name):
        raise NothingToPlantError(f"{name} is rounding alone: exactly it is 0")
    return size


def uncancelled(subject: Subject, name: str) -> float:
    """About the root mean square that delta, dQ or dK would have, did nothing cancel; else 0."""
    if name not in CANCELLING or subject.internals is None:
        return 0.0
    other = CANCELLING[name]
    rows = root_mean_square(products(subject.internals))
    if not other:
        return rows
    along = root_mean_square(getattr(subject.case.inputs, other))
    return abs(subject.case.problem.scale) * rows * along


def products(internals: Internals) -> F64:
    """Sum of P abs(dP) of every row."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((internals.p * np.abs(internals.dp)).sum(axis=-1))


def _unit(subject: Subject, name: str) -> float:
    """Root mean square of an output, or of what cancels in it."""
    try:
        return sized(subject, name)
    except NothingToPlantError:
        unit = uncancelled(subject, name)
        if not unit:
            raise
        return unit


def _element(subject: Subject, name: str, size: float) -> F32:
    return moved(name, array_of(subject, name), size * _unit(subject, name))


def _drift(subject: Subject, name: str, size: float) -> F32:
    """A channel of every key, moved one way."""
    new = array_of(subject, name).copy()
    with np.errstate(over="ignore"):
        new[0, :, 0, 0] += np.float32(size * _unit(subject, name))
    return stored(name, new)


def _row(subject: Subject, name: str, size: float) -> F32:
    return moved(name, array_of(subject, name), size)


def _factor(subject: Subject, name: str, size: float) -> F32:
    sized(subject, name)
    with np.errstate(over="ignore", invalid="ignore"):
        return stored(name, array_of(subject, name) * np.float32(1 + size))


def _next(subject: Subject, name: str, size: float) -> F32:
    array = array_of(subject, name)
    return next_bits(name, array) if size else array


def _nan(subject: Subject, name: str, size: float) -> F32:
    array = array_of(subject, name)
    new, at = array.copy(), median_at(array)
    new[at] = np.nan if size else new[at]
    return new


def _swallowed(subject: Subject, name: str, size: float) -> F32:
    due = subject.references.bands[name].must_nan
    if not due.any():
        raise NothingToPlantError("no NaN is due")
    new = array_of(subject, name).copy()
    if size:
        new[tuple(np.argwhere(due)[0])] = 0.0
    return new


def _wide(subject: Subject, name: str, size: float) -> F32:
    array = array_of(subject, name)
    new, at = array.copy(), median_at(array)
    new.view(np.uint32)[at] |= np.uint32(1 if size else 0)
    return new


def _dead(subject: Subject, size: float) -> Evidence:
    dead = ~subject.case.problem.mask().any(axis=1)
    o = subject.outputs.o.copy()
    if not (dead.any() and o.size):
        raise NothingToPlantError("every query sees a key")
    o[0, int(dead.argmax()), 0, 0] = np.float32(size * 2.0**-133)
    return of_answer(subject, replace(subject.outputs, o=o))


def _alone(subject: Subject, size: float) -> Evidence:
    outputs = subject.outputs
    o = _next(subject, "o", size)
    return of_answer(subject, outputs, forward=Forward(o, outputs.lse))


_DRIFT = "one channel of dK moved by s of its root mean square in every key"
_BANDS = ("o", "dq", "dk", "dv")

ROWS = (
    *(
        Deviation(
            name,
            f"{name} element",
            f"one element of {name} moved by s of its root mean square",
            ELEMENT,
            _plant(name, _element),
        )
        for name in _BANDS
    ),
    *(
        Deviation(
            name,
            f"{name} factor",
            f"{name} times 1 + s",
            FACTOR,
            _plant(name, _factor),
        )
        for name in _BANDS
    ),
    Deviation("lse", "lse row", "LSE of one row + s", LSE, _plant("lse", _row)),
    Deviation(
        "delta",
        "delta row",
        "delta of one row moved by s of its root mean square",
        DELTA,
        _plant("delta", _element),
    ),
    Deviation("nan", "nan planted", "one element of O is NaN", 1, _plant("o", _nan), doubles=False),
    Deviation(
        "nan",
        "nan swallowed",
        "the first NaN that is due in O is 0",
        1,
        _plant("o", _swallowed),
        doubles=False,
    ),
    Deviation(
        "dead-rows",
        "dead-rows",
        "one element of O on a row without keys is 2^-133",
        1,
        _dead,
        doubles=False,
    ),
    Deviation(
        "format",
        "format",
        "one element of O has the last bit of float32",
        1,
        _plant("o", _wide),
        doubles=False,
    ),
    Deviation(
        "repeat",
        "repeat",
        "one element of O is the next number in a forward alone",
        1,
        _alone,
        doubles=False,
    ),
    Deviation(
        "bits",
        "bits",
        "one element of dK is the next number",
        1,
        _plant("dk", _next),
        doubles=False,
    ),
    Deviation(
        "dump",
        "dump",
        "one element of O is the next number, and the dump's is not",
        1,
        _plant("o", _next),
        doubles=False,
    ),
    Deviation("sum-dv", "sum-dv", "dV times 1 + s", DOUBLED, _plant("dv", _factor)),
    Deviation("sum-dk", "sum-dk", _DRIFT, DRIFT, _plant("dk", _drift)),
    Deviation("columns", "columns", _DRIFT, ELEMENT, _plant("dk", _drift)),
)
