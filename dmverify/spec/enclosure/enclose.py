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

Windows, and the query heads of a key head, go in ascending order. In contracts without windows dK
and dV are sums over the queries of all these heads in any order: one chain through the heads, or
the heads' own sums added in any order, before or after the softmax scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.enclosure_numbers import Numbers
from dmverify.spec.arithmetic.enclosure_open import OpenEnclosure
from dmverify.spec.arithmetic.interval import Interval
from dmverify.spec.attention.operands import padded
from dmverify.spec.attention.parts import in_parts
from dmverify.spec.attention.run import STORED_IN_BF16
from dmverify.spec.case import F32, Inputs
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.enclosure.bands import Band, Flags, bf16_band, single_band
from dmverify.spec.enclosure.special import must_nan
from dmverify.spec.enclosure.stored import e4m3_band
from dmverify.spec.problem import Problem


def enclosure(
    contract: Contract,
    problem: Problem,
    inputs: Inputs,
    *,
    order: str = "channels",
    given: Mapping[str, F32] | None = None,
) -> dict[str, Band]:
    """The band of every output (o, lse, dq, dk, dv, delta), in the shapes of ``Outputs``.

    Args:
        contract: The numerics; the order of its row sums is taken to be open.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D); NaN and infinity where the scale rule allows them.
        order: ``channels`` or ``free``, see above; an online softmax has no order.
        given: o and lse that a kernel returned: its gradients are then judged as a function of
            them, which is what its backward is called with.

    Raises:
        InputError: If the inputs hold what the contract's scale rule forbids, or for another order.
        ContractError: If the contract leaves the key mean's order open and has another scale rule
            than amax / 448.
    """
    lengths = padded(problem.keys), padded(problem.queries) * problem.group
    arithmetic = Enclosure(contract, order=order, lengths=lengths)
    if isinstance(contract.schedule, Online):
        arithmetic = OpenEnclosure(contract, group=problem.group)
    stated = in_any_order(contract)
    run = in_parts(stated, problem, inputs, arithmetic, arithmetic.ends, given=given)
    flags = must_nan(contract, problem, inputs)
    found = {name: Interval(ends[0], ends[1]) for name, ends in run.found.items()}
    numbers = dict(found)
    if given is None and isinstance(contract.schedule, Rows):
        numbers = _numbers(stated, problem, inputs, found, lengths=lengths)
    with np.errstate(all="ignore"):
        bands = {name: _band(name, numbers[name], flags[name], run.exponents) for name in found}
        return {
            name: replace(band, may_nan=band.may_nan | found[name].open)
            for name, band in bands.items()
        }


def in_any_order(contract: Contract) -> Contract:
    """The contract with the order of its row sums left open."""
    if not isinstance(contract.schedule, Windows):
        return contract
    return replace(contract, schedule=replace(contract.schedule, row_sum="unspecified"))


def _reached(contract: Contract, left_open: Mapping[str, Flags]) -> frozenset[str]:
    """Cast sites whose amax takes in a NaN of another row, if there is one.

    A NaN in a logit is in its row's LSE, one in dP in its row's delta.
    """
    if left_open["lse"].any() or (contract.delta == "associated" and left_open["o"].any()):
        return frozenset({"p", "ds"})
    return frozenset({"ds"}) if left_open["delta"].any() else frozenset()


def _numbers(
    contract: Contract,
    problem: Problem,
    inputs: Inputs,
    found: Mapping[str, Interval],
    *,
    lengths: tuple[int, int],
) -> dict[str, Interval]:
    """What was found, with the numbers that are not NaN where it is open."""
    left_open = {name: x.open for name, x in found.items()}
    finite = all(np.isfinite(array).all() for _, array in inputs.items())
    any_scale = _reached(contract, left_open)
    if not finite or not any(x.any() for x in left_open.values()):
        return dict(found)
    again = Numbers(contract, lengths=lengths, any_scale=any_scale)
    run = in_parts(contract, problem, inputs, again, again.ends)
    chained = contract.ds_cast == "zero-sum" and any_scale  # a chain is not known under any scale
    return {
        name: x
        if chained and name in ("dq", "dk")
        else Interval(
            np.where(left_open[name], run.found[name][0], x.lo),
            np.where(left_open[name], run.found[name][1], x.hi),
        )
        for name, x in found.items()
    }


def _band(name: str, x: Interval, must: Flags, exponents: Mapping[str, int]) -> Band:
    if name not in STORED_IN_BF16:
        return single_band(x, must)
    if name in exponents:
        return e4m3_band(x, must, exponents[name])
    return bf16_band(x, must)
