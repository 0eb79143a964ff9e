"""Judgements: an answer against its bands, part by part, so that no band has to be there whole.

A band takes ten times the room of its output. Of a large case the bands come in parts
(``References.each_band``), and what is kept of each element is whether it fails. Not covered: a
large case that fails is described with all its bands at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.conformance.accuracy import Accuracy, Errors
from dmverify.conformance.checks.margins import Flags, compare, element
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Element
from dmverify.spec.attention.stores import store_of
from dmverify.spec.case import F32, F64
from dmverify.spec.enclosure import Band
from dmverify.spec.enclosure.enclose import BandPart
from dmverify.spec.formats import FloatFormat

FORWARD, GRADIENTS = ("o", "lse"), ("dq", "dk", "dv")

Indices = tuple[npt.NDArray[np.intp], ...]


class Judgement:
    """What an output is by its bands.

    Args:
        output: Its name.
        got: What the kernel returned.
        fmt: The format that it is stored in, whose units its errors are counted in.

    Attributes:
        failed: Which elements are outside.
        wrong_nan: Which are NaN where none may be, or a number where NaN is due.
        open: How many the contract leaves undetermined.
        worst: The first element of the largest margin; None without elements.
    """

    def __init__(self, output: str, got: F32, fmt: FloatFormat | None = None) -> None:
        self._output, self._got = output, got
        self.failed: Flags = np.zeros(got.shape, dtype=bool)
        self.wrong_nan: Flags = np.zeros(got.shape, dtype=bool)
        self.open = 0
        self.worst: Element | None = None
        self._middle = Errors(output, fmt)

    def take(self, place: tuple[Any, ...], band: Band) -> None:
        """The bands of some elements, each once."""
        got = self._got[place]
        if not got.size:
            return
        judged = compare(got, band)
        nan = np.isnan(got)
        self.failed[place] = judged.margin > 1
        self.wrong_nan[place] = (nan & ~band.may_nan) | (~nan & band.must_nan)
        self.open += int(judged.open.sum())
        self._middle.add(got, np.where(band.must_nan | band.may_nan, np.nan, band.mid))
        first = np.unravel_index(int(np.argmax(judged.margin)), got.shape)
        margin = float(judged.margin[first])
        here = tuple(int(i[0]) for i in positions(place, tuple(np.atleast_1d(i) for i in first)))
        if self.worst is None or (-margin, here) < (-self.worst.margin, self.worst.index):
            at = tuple(int(i) for i in first)
            self.worst = replace(element(self._output, got, band, at, margin), index=here)

    @property
    def from_contract(self) -> Errors:
        """The errors of the elements from the middle of their bands."""
        return self._middle


def positions(place: tuple[Any, ...], inside: Indices) -> Indices:
    """Where elements of ``array[place]`` stand in the array.

    Args:
        place: Whole, slices of the first axes, or slices among arrays of one length.
        inside: Indices of the elements in ``array[place]``, whose first axis is the arrays'.
    """
    if any(one is Ellipsis for one in place):
        return inside
    arrays = any(isinstance(one, np.ndarray) for one in place)
    axes = iter(inside[1:] if arrays else inside)
    found = [
        one[inside[0]] if isinstance(one, np.ndarray) else next(axes) + (one.start or 0)
        for one in place
    ]
    return (*found, *axes)


@dataclass(frozen=True, eq=False)
class _Judged:
    """All outputs of an answer.

    Attributes:
        plain: By output, what any forward allows.
        narrowed: The gradients, as a function of O and LSE as they were returned, where these are
            right and are all that the backward is called with.
    """

    plain: Mapping[str, Judgement]
    narrowed: Mapping[str, Judgement]


def judgement_of(evidence: Evidence, output: str) -> Judgement:
    """An output of the plain answer by what is asked of it.

    Raises:
        ContractError: If neither bits nor enclosures cover the contract.
    """
    judged = _judged(evidence)
    return judged.narrowed.get(output) or judged.plain[output]


def plain_judgement_of(evidence: Evidence, output: str) -> Judgement:
    """An output of the plain answer by what any forward allows.

    Raises:
        ContractError: If neither bits nor enclosures cover the contract.
    """
    return _judged(evidence).plain[output]


def narrows(evidence: Evidence) -> bool:
    """Whether the gradients are judged as a function of the kernel's own O and LSE."""
    return bool(_judged(evidence).narrowed)


def accuracy_of(evidence: Evidence, output: str) -> Accuracy:
    """How wrong one output is."""
    if "attention" not in evidence.kept:
        evidence.kept["attention"] = _from_attention(evidence)
    from_attention: Errors = evidence.kept["attention"][output]
    middle = plain_judgement_of(evidence, output).from_contract
    return Accuracy(from_attention.distance(), middle.distance())


def bands_at(evidence: Evidence, output: str, at: npt.NDArray[np.intp]) -> Band:
    """The bands of some elements, by their places in the flat output."""
    shape = getattr(evidence.outputs, output).shape
    wanted = np.zeros(shape, dtype=bool)
    wanted.reshape(-1)[at] = True
    places, bands = [np.zeros(0, np.intp)], []

    def take(part: BandPart) -> None:
        if part.name != output or not (here := wanted[part.place]).any():
            return
        where = positions(part.place, np.nonzero(here))
        places.append(np.ravel_multi_index(where, shape))
        bands.append([getattr(part.band, field.name)[here] for field in fields(Band)])

    evidence.each_band(take)
    found = np.concatenate(places)
    order = np.argsort(found)
    rank = order[np.searchsorted(found, at, sorter=order)]
    return Band(*(np.concatenate(parts)[rank] for parts in zip(*bands, strict=True)))


def _judged(evidence: Evidence) -> _Judged:
    if "judged" not in evidence.kept:
        evidence.kept["judged"] = _judge(evidence)
    found: _Judged = evidence.kept["judged"]
    return found


def _judge(evidence: Evidence) -> _Judged:
    outputs = dict(evidence.outputs.items())
    fmt = {name: store_of(evidence.contract, name).fmt for name in outputs}
    plain = {name: Judgement(name, got, fmt[name]) for name, got in outputs.items()}
    evidence.each_band(lambda part: _take(plain, part))
    narrowed: dict[str, Judgement] = {}
    online = evidence.contract.schedule.kind == "online" and set(FORWARD) <= set(outputs)
    if online and not any(plain[name].failed.any() for name in FORWARD):
        narrowed = {
            name: Judgement(name, outputs[name], fmt[name]) for name in GRADIENTS if name in outputs
        }
        evidence.each_band_of_backward(lambda part: _take(narrowed, part))
    return _Judged(plain, narrowed)


def _take(judgements: Mapping[str, Judgement], part: BandPart) -> None:
    if part.name in judgements:
        judgements[part.name].take(part.place, part.band)


def _from_attention(evidence: Evidence) -> dict[str, Errors]:
    outputs = dict(evidence.outputs.items())
    errors = {name: Errors(name, store_of(evidence.contract, name).fmt) for name in outputs}

    def take(name: str, place: tuple[Any, ...], due: F64) -> None:
        if name in errors:
            errors[name].add(outputs[name][place], due)

    evidence.each_attention(take)
    return errors
