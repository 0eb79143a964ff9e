"""``enclosure``: for every output element, the numbers that a conforming kernel may return.

The contract's steps, interpreted in intervals (``dmverify.spec.arithmetic.Enclosure``): by
induction each interval holds every float32 number that a kernel can have at that step, codes
included, so a kernel outside is wrong about something and a conforming kernel is never outside. It
encloses what is computed from the contract's own operands, not attention on the original inputs.

| order | what a kernel may choose |
|---|---|
| channels | keys (in dK, dV: queries) inside a window; row sums; channels of float32 dots |
| free | those, and the channels of wgmma, which are otherwise in the contract's order |

Where a code may overflow, so that a kernel may have NaN, the steps run once more without that NaN
(``Numbers``): such an element is NaN, or in the interval that they give. An element is wholly open
only where they give none.

A band of every element at once takes ten times the room of the output, so ``each_band`` gives them
part by part, to a judge that needs no whole; ``enclosure`` puts the parts together.

Windows, and the query heads of a key head, go in ascending order. In contracts without windows dK
and dV are sums over the queries of all these heads in any order: one chain through the heads, or
the heads' own sums added in any order, before or after the softmax scale.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.enclosure_numbers import Numbers
from dmverify.spec.arithmetic.enclosure_open import OpenEnclosure
from dmverify.spec.arithmetic.interval import Interval
from dmverify.spec.attention.operands import padded
from dmverify.spec.attention.parts import AttentionCall, Interpreter, Part, each_part
from dmverify.spec.attention.run import names_of
from dmverify.spec.attention.stores import Store, store_of
from dmverify.spec.case import F32, Inputs
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.enclosure.bands import Band, Flags, rounded_band, single_band
from dmverify.spec.enclosure.special import must_nan
from dmverify.spec.enclosure.stored import e4m3_band
from dmverify.spec.formats import E4M3, FP32
from dmverify.spec.problem import Problem


@dataclass(frozen=True, eq=False)
class BandPart:
    """The bands of some elements of an output.

    Attributes:
        name: Name of the output.
        place: Where they stand: an index of the whole array.
        band: In the shape of ``array[place]``.
    """

    name: str
    place: tuple[Any, ...]
    band: Band


def enclosure(
    contract: Contract,
    problem: Problem,
    inputs: Inputs,
    *,
    order: str = "channels",
    given: Mapping[str, F32] | None = None,
) -> dict[str, Band]:
    """The band of every output that the contract has, in the shapes of ``Outputs``.

    Args:
        contract: The numerics; the order of its row sums is taken to be open.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D); NaN and infinity where the scale rule allows them.
        order: ``channels`` or ``free``, see above; an online softmax has no order.
        given: o and lse that a kernel returned: its gradients are then judged as a function of
            them, which is what its backward is called with.

    Raises:
        InputError: If the inputs hold what the contract's scale rule forbids, or for another order.
        ContractError: If O and LSE are given and the contract's backward takes neither.
    """
    shapes = problem.shapes()
    bands = {name: _empty(shapes[name]) for name in names_of(contract)}

    def take(part: BandPart) -> None:
        for field in fields(Band):
            whole = getattr(bands[part.name], field.name)
            whole[part.place] = getattr(part.band, field.name)

    each_band(AttentionCall(contract, problem, inputs, given), take, order=order)
    return bands


def _empty(shape: tuple[int, ...]) -> Band:
    arrays: dict[str, Any] = {
        field.name: np.empty(shape, bool if field.name.endswith("nan") else np.float64)
        for field in fields(Band)
    }
    return Band(**arrays)


def each_band(
    call: AttentionCall, take: Callable[[BandPart], None], *, order: str = "channels"
) -> None:
    """Gives the bands of ``enclosure`` part by part; every element is in one part.

    Args:
        call: What is enclosed; the order of its row sums is taken to be open.
        take: Called with each part, in no order that means something.
        order: ``channels`` or ``free``.

    Raises:
        InputError: As there.
        ContractError: As there.
    """
    contract, problem, inputs = call.contract, call.problem, call.inputs
    lengths = padded(problem.keys), padded(problem.queries) * problem.group
    arithmetic = Enclosure(contract, order=order, lengths=lengths)
    schedule = contract.schedule
    if isinstance(schedule, Online):
        arithmetic = OpenEnclosure(contract, group=problem.group)
    stated = replace(call, contract=in_any_order(contract))
    due = cache(lambda: must_nan(contract, problem, inputs))
    has_numbers = (
        call.given is None
        and isinstance(schedule, Rows)
        and contract.in_e4m3
        and all(np.isfinite(array).all() for _, array in inputs.items())
    )
    number, waiting = count(), dict[int, Part]()

    def first(part: Part) -> None:
        x, at = _interval(part), next(number)
        if has_numbers and x.open.any():
            waiting[at] = part
        else:
            take(banded(part, x))

    def with_numbers(part: Part, x: Interval) -> None:
        take(banded(part, x))

    def banded(part: Part, x: Interval) -> BandPart:
        store = store_of(contract, part.name)
        return _banded(part, x, due()[part.name], store)

    each_part(stated, Interpreter(arithmetic, arithmetic.ends), first)
    if not waiting:
        return
    any_scale = _reached(stated.contract, waiting.values())
    if contract.ds_cast == "zero-sum" and any_scale:  # a chain is not known under any scale
        for at in [at for at, part in waiting.items() if part.name in ("dq", "dk")]:
            part = waiting.pop(at)
            with_numbers(part, _interval(part))
    again = Numbers(stated.contract, lengths=lengths, any_scale=any_scale)
    _each_again(stated, again, waiting, with_numbers)


def in_any_order(contract: Contract) -> Contract:
    """The contract with the order of its row sums left open."""
    schedule = contract.schedule
    if not isinstance(schedule, Windows):
        return contract
    return replace(contract, schedule=replace(schedule, row_sum="unspecified"))


def _reached(contract: Contract, waiting: Collection[Part]) -> frozenset[str]:
    """Cast sites whose amax takes in a NaN of another row, if there is one.

    A NaN in a logit is in its row's LSE, one in dP in its row's delta.
    """
    left_open = {part.name for part in waiting}
    if "lse" in left_open or (contract.delta_mode.forward_p and "o" in left_open):
        return frozenset({"p", "ds"})
    return frozenset({"ds"}) if "delta" in left_open else frozenset()


def _each_again(
    call: AttentionCall,
    again: Numbers,
    waiting: Mapping[int, Part],
    take: Callable[[Part, Interval], None],
) -> None:
    """The parts that wait, with the numbers that are not NaN where they are open."""
    number = count()

    def second(part: Part) -> None:
        before = waiting.get(next(number))
        if before is not None:
            old, new = _interval(before), _interval(part)
            lo, hi = np.where(old.open, (new.lo, new.hi), (old.lo, old.hi))
            take(before, Interval(lo, hi))

    each_part(call, Interpreter(again, again.ends), second)


def _interval(part: Part) -> Interval:
    lo, hi = part.found
    return Interval(lo, hi)


def _banded(part: Part, x: Interval, due: Flags, store: Store) -> BandPart:
    """The band of a part; ``x`` is what was found of it, perhaps with numbers where it is open."""
    with np.errstate(all="ignore"):
        band = _band(store, x, due[part.place], part.exponents.get(part.name, 0))
        may = band.may_nan | _interval(part).open
        return BandPart(part.name, part.place, replace(band, may_nan=may))


def _band(store: Store, x: Interval, must: Flags, exponent: int) -> Band:
    if store.fmt is FP32:
        return single_band(x, must)
    if store.fmt is E4M3:
        return e4m3_band(x, must, exponent)
    return rounded_band(x, must, store.fmt)
