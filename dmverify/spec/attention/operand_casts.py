"""How each operand becomes codes: what a contract says of q, k, v and do, one record each.

    blocks of rows   code = round(x / scale), a scale a block of rows, or a channel of it
    blocks along     once along the channels, and once more down the rows, for either kind of dot
    BF16             the numbers as they came, scale 1

What shares a scale is a head, the query heads of a key head, or the whole call (``spanned``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.spec.case import OPERANDS
from dmverify.spec.contracts import Contract, Rows
from dmverify.spec.formats import BF16, Element
from dmverify.spec.namespace import Array
from dmverify.spec.scaling import Tiling, quantise

Coded = tuple[Array, Array]
"""Codes (B, H, N, D) and their scales, (B, H, N, 1), or (B, H, N, D) where channels have own."""


@dataclass(frozen=True)
class OperandCast:
    """One operand of a contract.

    Attributes:
        name: q, k, v or do.
        element: The format of its codes.
        rule: From the largest magnitude of a block to its scale (``dmverify.spec.scaling``).
        rows: Rows of a block; None is all.
        channels: Whether each channel of a block has a scale of its own.
        span: What shares scales: see ``scale_span`` of contracts.
        along: Length of blocks along what a dot sums over; None is blocks of rows.
        given: Whether callers bring codes with scales.
    """

    name: str
    element: Element
    rule: str
    rows: int | None
    channels: bool
    span: str
    along: int | None
    given: bool

    @property
    def coded(self) -> bool:
        """Whether it has codes at all."""
        return self.element is not BF16


def operand_casts(contract: Contract) -> dict[str, OperandCast]:
    """The operands of a contract, by name."""
    schedule, rule = contract.schedule, contract.operand_rule
    along = schedule.tile if isinstance(schedule, Rows) and schedule.cast == "blocks" else None
    span, by_channel = contract.scale_span, contract.v_scales == "channels"
    found = {}
    for name in OPERANDS:
        element = contract.element(name)
        found[name] = OperandCast(
            name=name,
            element=element,
            rule=rule,
            rows=getattr(contract, f"{name}_block"),
            channels=by_channel and name == "v",
            span=span,
            along=along,
            given=rule == "given" and element is not BF16,
        )
    return found


def coded(operand: OperandCast, x: Array, kv_heads: int) -> Coded:
    """Codes and scales of an operand, (B, H, N, D), or the numbers themselves."""
    if not operand.coded:
        return as_they_are(x)
    if operand.along:
        return along_rows(operand, x)
    return _quantised(operand, x, kv_heads)


def as_they_are(x: Array) -> Coded:
    """Numbers with scale 1."""
    return x, np.ones((*x.shape[:-1], 1), np.float32)


def _quantised(operand: OperandCast, x: Array, kv_heads: int) -> Coded:
    channels = operand.channels
    tiling = Tiling(operand.rows, 1 if channels else None)
    view = spanned(x, operand.span, kv_heads)
    quantised = quantise(view, operand.rule, block=tiling, element=operand.element)
    shape = view.shape if channels else (*view.shape[:-1], 1)
    scales = np.broadcast_to(quantised.element_scales(), shape)
    return quantised.values.reshape(x.shape), scales.reshape((*x.shape[:-1], shape[-1]))


def along_rows(operand: OperandCast, x: Array) -> Coded:
    """Casts in blocks along the last axis; returns values and scales in the shape of ``x``."""
    quantised = quantise(x, operand.rule, block=Tiling(rows=1, columns=operand.along))
    return quantised.values, np.broadcast_to(quantised.element_scales(), x.shape)


def down_columns(operand: OperandCast, x: Array) -> Coded:
    """Casts in blocks down the columns, for dots that sum over the rows."""
    codes, scale = along_rows(operand, x.swapaxes(-1, -2))
    return codes.swapaxes(-1, -2), scale.swapaxes(-1, -2)


def spanned(x: Array, span: str, kv_heads: int) -> Array:
    """(B, H, N, D) seen so that what shares a scale is one matrix: see ``scale_span``."""
    batch, heads, rows, width = x.shape
    shapes = {
        "head": (batch, heads, rows, width),
        "group": (batch, kv_heads, heads // kv_heads * rows, width),
        "call": (1, 1, batch * heads * rows, width),
    }
    return x.reshape(shapes[span])
