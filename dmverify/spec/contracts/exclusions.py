"""Which fields of a contract exclude each other, and which have no effect beside others.

A combination without defined steps is refused by the fields that make it. ``idle`` says of a
defined contract which of its fields nothing reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dmverify.spec.contracts.schedule import Online, Rows, Windows
from dmverify.spec.formats import BF16

if TYPE_CHECKING:
    from dmverify.spec.contracts.contract import Contract

CHAIN_TILE = 64  # a chain of 16 keys is what a thread holds of 64
OPERANDS = ("q", "k", "v", "do")
BLOCKS, FORMATS = (tuple(f"{name}_{what}" for name in OPERANDS) for what in ("block", "format"))
STATIC = ("p_scale", "ds_scale")
BACKWARD = ("delta", "ds_cast", "ds_format", "do_format", "do_block", "ds", "ds_scale")


class Exclusion(NamedTuple):
    """A combination that has no meaning, in the fields that make it."""

    wrong: bool
    fields: tuple[str, ...]
    rule: str
    fix: str


def exclusions(c: Contract) -> tuple[Exclusion, ...]:
    """What a contract's fields forbid each other, in the order of asking."""
    return (*_of_windows(c), *_of_scales(c), *_of_formats(c), *_of_gradients(c))


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
    form, spans = c.schedule.operands, c.scale_span != "head"
    summed = ("v", "do", "q", "k") if c.gradients else ("v",)  # over their rows, in some dot
    whole = _taken(c) if spans else summed if form == "whole" else ()
    blocked = [f"{name}_block" for name in whole if getattr(c, f"{name}_block") is not None]
    other = c.operand_rule != "amax" or spans
    given = c.operand_rule == "given" and form != "bf16"
    return (
        Exclusion(
            c.element("k") is BF16 and c.centre_k != "none",
            ("operands", "k_format", "centre_k"),
            "BF16 operands are the inputs as they came",
            "use centre_k='none'",
        ),
        Exclusion(
            form != "bf16" and bool(blocked),
            ("operands", "scale_span", *blocked),
            "one scale for several heads, or for what a dot on codes sums over, is one for all "
            "their rows",
            "use 'whole' for every block, or scale_span='head' and another schedule",
        ),
        Exclusion(
            c.centre_k == "mean" and other,
            ("centre_k", "operand_rule", "scale_span"),
            "keys centred by a mean of any order are derived for amax / 448 of a head",
            "state the mean's order (centre_k='blocked-mean'), or use operand_rule='amax' and "
            "scale_span='head'",
        ),
        Exclusion(
            given and c.centre_k != "none",
            ("operand_rule", "centre_k"),
            "keys that come as codes are taken as they are",
            "use centre_k='none'; the caller may centre them",
        ),
        Exclusion(
            given and c.gradients and c.delta_mode.reads_input and c.element("do") is not BF16,
            ("operand_rule", "delta", "do_format"),
            "dO comes as codes, so that there is no other one to form delta from",
            "use delta='consistent'",
        ),
        Exclusion(
            c.store == "call-exponent" and not isinstance(c.schedule, Online),
            ("store", "schedule"),
            "exponents of a call are derived for an online schedule",
            "use store='e4m3', or schedule='online'",
        ),
    )


def _of_formats(c: Contract) -> tuple[Exclusion, ...]:
    schedule, on_codes = c.schedule, c.schedule.operands == "whole"
    integers = [name for name in FORMATS if getattr(c, name) == "int8"]
    pair = set(integers) in (set(), {"q_format", "k_format"}) and not (integers and c.gradients)
    static = [name for name in STATIC if isinstance(schedule, Rows) and getattr(schedule, name)]
    plain = isinstance(schedule, Windows) or c.blocked
    return (
        Exclusion(
            plain and not c.in_e4m3,
            ("schedule", "cast", *_other_than_e4m3(c), *static),
            "windows and blocks are derived for E4M3 with scales from the data",
            "use schedule='rows' with cast='tiles', or leave these fields as they are",
        ),
        Exclusion(
            on_codes and not pair,
            ("operands", *integers, "gradients"),
            "on codes integers multiply integers, and what sums over their rows is not derived",
            "use 'int8' for q_format and k_format alone with gradients=false, or schedule='rows'",
        ),
        Exclusion(
            c.v_scales == "channels" and on_codes and c.gradients,
            ("v_scales", "operands", "gradients"),
            "dP = dO V^T on codes sums over channels, so they share a scale",
            "use v_scales='rows', gradients=false, or schedule='rows'",
        ),
        Exclusion(
            isinstance(schedule, Online) and schedule.p_scale is None,
            ("schedule", "p_scale"),
            "an online softmax casts P before it knows a group's largest",
            "give p_scale a number",
        ),
        Exclusion(
            c.ds_cast == "zero-sum" and (c.ds_format != "e4m3" or "ds_scale" in static),
            ("ds_cast", "ds_format", *static),
            "carried errors are derived for E4M3 in units of a tile's scale",
            "use ds_cast='nearest'",
        ),
    )


def _other_than_e4m3(c: Contract) -> list[str]:
    """The fields that say something else than E4M3 with scales of rows from the data."""
    formats = [name for name in (*FORMATS, "ds_format") if getattr(c, name) != "e4m3"]
    channels = ["v_scales"] if c.v_scales != "rows" else []
    return formats + channels + ["operand_rule"] * (c.operand_rule in ("unit", "given"))


def _taken(c: Contract) -> tuple[str, ...]:
    """The operands that a kernel of the contract has."""
    return OPERANDS if c.gradients else OPERANDS[:3]


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
            c.delta_mode.forward_p and c.normaliser != "codes",
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
        names = ("operand_rule", *FORMATS, *BLOCKS, "scale_span", "v_scales")
        found |= dict.fromkeys(names, "BF16 operands have no scale")
    elif c.operand_rule == "unit":
        names = (*BLOCKS, "scale_span", "v_scales")
        found |= dict.fromkeys(names, "every scale is 1")
    else:
        kept = [name for name in OPERANDS if c.element(name) is BF16]
        found |= {f"{name}_block": "a BF16 operand has no scale" for name in kept}
    if c.v_format == "bf16":
        found["v_scales"] = "a BF16 operand has no scale"
    if c.blocked:
        found |= dict.fromkeys(BLOCKS, "operands have blocks of the schedule's tile")
    if not c.gradients:
        found |= dict.fromkeys((*BACKWARD, "tile"), "there is no backward pass")
    return found | (_idle_online(c, c.schedule) if isinstance(c.schedule, Online) else {})


def _idle_online(c: Contract, schedule: Online) -> dict[str, str]:
    found = {"saturate": "what is cast online always saturates"}
    if schedule.p == "unrounded":
        found["normaliser"] = "the sum of the codes is that of the unrounded e"
    if schedule.ds != "call-exponent":
        found["ds_format"] = "the contract's dS has no codes"
        if schedule.p != "e4m3":
            found["p_scale"] = "the contract's P has no codes"
    return found
