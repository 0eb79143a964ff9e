"""Step 0: operands. Each input is quantised once, and every interpretation sees the same numbers.

    K is centred per head: a constant added to a row of logits changes no softmax.
    code = round(x / scale) per block of rows; the sign of the softmax scale is folded into q.
    Rows are padded with zero codes to whole blocks; padding takes no part (``Head.seen``).

An interpretation with the ``operands`` cast off gets the numbers themselves with scale 1. Source:
the article's recipe and the paper's appendix B; padding is this project's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.brought import brought_scales
from dmverify.spec.attention.num import Flags, Num, of_codes
from dmverify.spec.attention.operand_casts import (
    as_they_are,
    coded,
    down_columns,
    operand_casts,
)
from dmverify.spec.case import Inputs, require_shape
from dmverify.spec.contracts import Contract
from dmverify.spec.contracts.vocabulary import PAD
from dmverify.spec.formats import E4M3, Element
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem
from dmverify.spec.scaling import centre, token_mean


@dataclass(frozen=True)
class BlockScaled:
    """Codes with scales.

    Attributes:
        codes: Numbers of an element format, any shape.
        scale: What they are multiplied with; it broadcasts to their shape.
        element: The format of the codes.
        formed: code x scale, if it was formed once for all that reads it.
        turned: The same numbers cast once more, in blocks down the columns, if blocks run along
            what a dot sums over; see ``down``.
    """

    codes: Num
    scale: Num
    element: Element = E4M3
    formed: Num | None = None
    turned: BlockScaled | None = None

    @property
    def numbers(self) -> Num:
        """code x scale."""
        if self.formed is not None:
            return self.formed
        return of_codes(self.codes * self.scale, self.scale, self.element)

    @property
    def down(self) -> BlockScaled:
        """What a dot takes that sums over the rows; ``self`` is what one over the columns takes."""
        return self if self.turned is None else self.turned

    def with_numbers(self) -> BlockScaled:
        """The operand with code x scale computed once and kept."""
        turned = None if self.turned is None else self.turned.with_numbers()
        return replace(self, formed=self.numbers, turned=turned)

    def as_sets(self) -> BlockScaled:
        """The operand without its codes where numbers are sets, which take much memory.

        Only for schedules whose dots run on code x scale.
        """
        found: BlockScaled = self.codes.a.any_of(self, self._without_codes)
        return found

    def _without_codes(self) -> BlockScaled:
        numbers = self.numbers
        turned = None if self.turned is None else self.turned._without_codes()
        one = self.scale.of(1.0, self.scale.shape)
        return replace(self, codes=numbers, scale=one, formed=numbers, turned=turned)

    def rows(self, start: int, stop: int) -> BlockScaled:
        """Rows start to stop."""
        cut = slice(start, stop)
        formed = None if self.formed is None else self.formed[cut]
        turned = None if self.turned is None else self.turned.rows(start, stop)
        return replace(
            self, codes=self.codes[cut], scale=self.scale[cut], formed=formed, turned=turned
        )


@dataclass(frozen=True)
class Head:
    """All that one query head's attention takes.

    Attributes:
        q: Codes (Nq, D) padded to whole blocks of rows, scales (Nq, 1), or (Nq, D) where channels
            have their own; likewise below.
        k: (Nk, D).
        v: (Nk, D).
        do: (Nq, D).
        do_input: The BF16 gradient before quantisation, (Nq, D): the stale delta reads it.
        q_input: The queries before quantisation, (Nq, D), with the sign of the softmax scale, and
        k_mean: the mean that was taken off the keys, (1, D): LSE needs their product.
        seen: numpy bool, (Nq, Nk), False on padding and where the mask hides a key.
        scale: The softmax scale's magnitude; its sign is in q.
        exponents: Powers of two that the caller chose, by name (``call_exponents``).
    """

    q: BlockScaled
    k: BlockScaled
    v: BlockScaled
    do: BlockScaled
    do_input: Num
    q_input: Num
    k_mean: Num
    seen: Flags
    scale: float
    exponents: Mapping[str, int]


@dataclass(frozen=True)
class Prepared:
    """The padded operands of a whole call, per batch and head; float32, before interpretation.

    ``k_input`` are the keys as they came, (B, Hkv, Nk, D): an enclosure centres them itself.
    ``k_mean`` is what was taken off them, (B, Hkv, 1, D). ``turned`` are the tensors that are cast
    once more, down their columns. ``contract`` gives the format of each.
    """

    contract: Contract

    tensors: dict[str, tuple[Array, Array]]
    do_input: Array
    q_input: Array
    k_input: Array
    k_mean: Array
    seen: Array
    problem: Problem
    exponents: Mapping[str, int] = field(default_factory=dict)
    turned: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)

    @property
    def on_codes(self) -> bool:
        """Whether dots run on codes, so that code x scale is never formed."""
        return self.contract.schedule.on_codes

    def rows(self, start: int, stop: int) -> Prepared:
        """Queries ``start`` to ``stop``, and all keys."""
        cut = (..., slice(start, stop), slice(None))

        def some(tensors: Mapping[str, tuple[Array, Array]]) -> dict[str, tuple[Array, Array]]:
            queries = ("q", "do")
            return {
                name: (codes[cut], scale[cut]) if name in queries else (codes, scale)
                for name, (codes, scale) in tensors.items()
            }

        return replace(
            self,
            tensors=some(self.tensors),
            turned=some(self.turned),
            do_input=self.do_input[cut],
            q_input=self.q_input[cut],
            seen=self.seen[start:stop],
        )

    def head(self, a: Arithmetic, batch: Any, head: Any) -> Head:
        """The operands of one query head, or of each in an array of them, as numbers of ``a``."""
        place = placed(a)
        kv_head = head // self.problem.group
        at = {"q": head, "do": head, "k": kv_head, "v": kv_head}

        def scaled(tensors: Mapping[str, tuple[Array, Array]], name: str) -> BlockScaled:
            codes, scale = (place(x[batch, at[name]]) for x in tensors[name])
            return BlockScaled(codes, scale, self.contract.element(name))

        operands = {name: scaled(self.tensors, name) for name in at}
        for name in self.turned:
            operands[name] = replace(operands[name], turned=scaled(self.turned, name))
        return Head(
            **operands,
            do_input=place(self.do_input[batch, head]),
            q_input=place(self.q_input[batch, head]),
            k_mean=place(self.k_mean[batch, kv_head]),
            seen=self.seen,
            scale=abs(self.problem.scale),
            exponents=self.exponents,
        )


def placed(a: Arithmetic) -> Callable[[Array], Num]:
    """What takes arrays of one head; those of many, heads in front, where ``a`` stacks them."""
    place: Callable[[Array], Array] = getattr(a, "per_head", a.array)
    return lambda x: Num(place(x), a)


def prepare(
    contract: Contract,
    problem: Problem,
    inputs: Inputs,
    *,
    cast: bool,
    lengths: tuple[int, int] | None = None,
) -> Prepared:
    """Quantises and pads the inputs of a call.

    Args:
        contract: Gives block rows, scale rule and centring.
        problem: Sizes and mask.
        inputs: (B, N, H, D) tensors.
        cast: False keeps the numbers themselves, with scale 1 and no centring.
        lengths: Rows that queries and keys are padded to; None is a multiple of 128 each.

    Returns:
        Tensors (B, H, N padded, D) with scales (B, H, N padded, 1), or (..., D) where channels have
        their own.

    Raises:
        InputError: For another shape than the problem's, for NaN or infinity where the contract's
            scale rule forbids them, or for codes that the contract does not take.
    """
    shapes = problem.shapes()
    for name, x in inputs.items():
        require_shape(name, x, shapes[name])
    heads_first = {name: np.ascontiguousarray(x.swapaxes(1, 2)) for name, x in inputs.items()}
    given = brought_scales(contract, inputs)
    operands = operand_casts(contract)
    if not cast:
        heads_first |= {name: heads_first[name] * scale for name, scale in given.items()}
        given = {}
    to = dict(zip(("q", "k"), lengths or map(padded, (problem.queries, problem.keys)), strict=True))
    to |= {"do": to["q"], "v": to["k"]}
    do_input, k_input = _pad(heads_first["do"], to["do"]), heads_first["k"]
    rule = contract.centre_k if cast else "none"
    k_mean = token_mean(k_input, rule)
    if rule != "none":
        heads_first["k"] = centre(k_input, rule=rule)
    if problem.scale < 0:
        heads_first["q"] = -heads_first["q"]
    q_input = _pad(heads_first["q"], to["q"])
    tensors, turned = {}, {}
    for name, x in heads_first.items():
        operand = operands[name]
        if name in given:
            made = x, given[name]
        else:
            made = coded(operand, x, problem.kv_heads) if cast else as_they_are(x)
        tensors[name] = _padded(made, to[name])
        if cast and operand.along:
            turned[name] = _padded(down_columns(operand, x), to[name])
    rows, columns = (tensors[name][0].shape[2] for name in ("q", "k"))
    seen = problem.mask(rows, columns)
    return Prepared(
        contract, tensors, do_input, q_input, k_input, k_mean, seen, problem, turned=turned
    )


def _padded(coded: tuple[Array, Array], rows: int) -> tuple[Array, Array]:
    return _pad(coded[0], rows), _pad(coded[1], rows, value=1.0)


def whole(length: int, sides: Sequence[int]) -> int:
    """A multiple of every side, or what is shorter than all as it is; at least 1."""
    if length <= min(side for side in sides if side > 1 or len(sides) == 1):
        return max(length, 1)
    side = math.lcm(*sides)
    return -(-length // side) * side


def padded(rows: int) -> int:
    """A multiple of 128, and at least 128."""
    return max(PAD, -(-rows // PAD) * PAD)


def _pad(x: Array, rows: int, value: float = 0.0) -> Array:
    widths = [(0, 0)] * (x.ndim - 2) + [(0, rows - x.shape[-2]), (0, 0)]
    return np.pad(x, widths, constant_values=value)
