"""Which fields of a contract exclude each other, and which have no effect beside others.

A combination without defined steps is refused by the fields that make it. ``idle`` says of a
defined contract which of its fields nothing reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dmverify.spec.contracts.schedule import Online, Windows

if TYPE_CHECKING:
    from dmverify.spec.contracts.contract import Contract

CHAIN_TILE = 64  # a chain of 16 keys is what a thread holds of 64
BLOCKS = ("q_block", "k_block", "v_block", "do_block")


class Exclusion(NamedTuple):
    """A combination that has no meaning, in the fields that make it."""

    wrong: bool
    fields: tuple[str, ...]
    rule: str
    fix: str


def exclusions(c: Contract) -> tuple[Exclusion, ...]:
    """What a contract's fields forbid each other, in the order of asking."""
    return (*_of_windows(c), *_of_scales(c), *_of_gradients(c))


def _of_windows(c: Contract) -> tuple[Exclusion, ...]:
    window = c.schedule.window if isinstance(c.schedule, Windows) else None
    blocks = [getattr(c, name) for name in BLOCKS]
    quad = c.schedule.row_sum == "quad"
    return (
        Exclusion(
            window is not None and any(block and block % window for block in blocks),
            ("window", *BLOCKS),
            "on codes a window has one scale",
            "make every block a multiple of the window",
        ),
        Exclusion(
            quad and window != CHAIN_TILE,
            ("row_sum", "window"),
            f"the quad order is that of a window of {CHAIN_TILE} keys",
            f"use window={CHAIN_TILE}, or row_sum='unspecified'",
        ),
        Exclusion(
            window is not None and c.scale_span != "head",
            ("schedule", "scale_span"),
            "windows scale every head by itself",
            "use scale_span='head'",
        ),
    )


def _of_scales(c: Contract) -> tuple[Exclusion, ...]:
    form = c.schedule.operands
    blocked = any(getattr(c, name) is not None for name in BLOCKS)
    shared = form == "whole" or (form != "bf16" and c.scale_span != "head")
    return (
        Exclusion(
            form == "bf16" and c.centre_k != "none",
            ("operands", "centre_k"),
            "BF16 operands are the inputs as they came",
            "use centre_k='none'",
        ),
        Exclusion(
            shared and blocked,
            ("operands", "scale_span", *BLOCKS),
            "one scale for an operand, or for several heads, is one for all their rows",
            "use 'whole' for every block, or scale_span='head' and another schedule",
        ),
        Exclusion(
            c.centre_k == "mean" and (c.operand_rule != "amax" or c.scale_span != "head"),
            ("centre_k", "operand_rule", "scale_span"),
            "keys centred by a mean of any order are derived for amax / 448 of a head",
            "state the mean's order (centre_k='blocked-mean'), or use operand_rule='amax' and "
            "scale_span='head'",
        ),
        Exclusion(
            c.store == "call-exponent" and not isinstance(c.schedule, Online),
            ("store", "schedule"),
            "outputs in E4M3 are derived for an online schedule",
            "use store='bf16', or schedule='online'",
        ),
    )


def _of_gradients(c: Contract) -> tuple[Exclusion, ...]:
    tile = None if isinstance(c.schedule, Online) else c.schedule.tile
    open_mean, spans = c.centre_k == "mean", c.scale_span != "head"
    return (
        Exclusion(
            c.blocked and (c.ds_cast == "zero-sum" or open_mean or spans),
            ("cast", "ds_cast", "centre_k", "scale_span"),
            "in blocks elements round by themselves, scales are a head's, the mean has an order",
            "use ds_cast='nearest', centre_k='none' or 'blocked-mean', and scale_span='head'",
        ),
        Exclusion(
            c.ds_cast == "zero-sum" and tile != CHAIN_TILE,
            ("ds_cast", "schedule", "tile"),
            f"the zero-sum chains are laid out in tiles of {CHAIN_TILE}",
            f"use tiles of {CHAIN_TILE}, or ds_cast='nearest'",
        ),
        Exclusion(
            c.delta == "associated" and c.normaliser != "codes",
            ("delta", "normaliser"),
            "the associated delta is zero-sum only if l sums the rounded codes",
            "use normaliser='codes'",
        ),
    )


def idle(c: Contract) -> dict[str, str]:
    """The fields that have no effect beside the others, each with the reason.

    Args:
        c: A contract.

    Returns:
        Reasons by field name; a field that is read somewhere is absent.
    """
    found: dict[str, str] = {}
    if c.schedule.operands == "bf16":
        names = ("operand_rule", *BLOCKS, "scale_span")
        found |= dict.fromkeys(names, "BF16 operands have no scale")
    if c.blocked:
        found |= dict.fromkeys(BLOCKS, "operands have blocks of the schedule's tile")
    if isinstance(c.schedule, Online):
        found["saturate"] = "what is cast online always saturates"
        if c.schedule.p == "unrounded":
            found["normaliser"] = "the sum of the codes is that of the unrounded e"
    return found
