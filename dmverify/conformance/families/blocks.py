"""Families whose point is the scale of a block: zero, tiny, single, distinct.

Distinct sizes change every 64 rows, which divides the blocks of every contract. Zero and tiny
blocks are as large as the largest block of their operand (128 rows of q and do, 64 of k and v), so
that no contract can miss them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.logits import GAIN, SCALE
from dmverify.conformance.families.tensors import NAMES, as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

I64 = npt.NDArray[np.int64]

BLOCK = 64
OPERAND_BLOCK = {"q": 128, "k": 64, "v": 64, "do": 128}
WHERE = {"first": 0, "second": 1, "last": -1}

ALONG, OTHER = ("channel-blocks",), ("other-formats",)


@dataclass(frozen=True)
class Zeros:
    """Which elements of a tensor are zeros; all of them unless a field says otherwise.

    Attributes:
        block: Those of one block, counted from the end if negative.
        every: Those of every n-th row.
        single: All but one, which is drawn.
    """

    block: int | None = None
    every: int = 0
    single: bool = False

    def among(self, draws: Draws, x: F64, size: int) -> npt.NDArray[np.bool_]:
        """Where x (B, N, H, D), with blocks of ``size`` rows, is zero; broadcast to its shape."""
        rows = np.arange(x.shape[1])[None, :, None, None]
        if self.single:
            chosen = draws.order("single", x.size)[:1]
            return np.isin(np.arange(x.size), chosen, invert=True).reshape(x.shape)
        if self.every:
            return np.broadcast_to(rows % self.every == 0, x.shape)
        if self.block is None:
            return np.ones(x.shape, dtype=bool)
        count = -(-x.shape[1] // size) or 1
        return np.broadcast_to(rows // size == self.block % count, x.shape)


ZERO = {
    **{
        f"{name}-{where}": Variant({"tensors": (name,), "zeros": Zeros(block=index)})
        for name in NAMES
        for where, index in WHERE.items()
    },
    **{f"all-{name}": Variant({"tensors": (name,), "zeros": Zeros()}) for name in NAMES},
    "everything": Variant({"tensors": NAMES, "zeros": Zeros()}),
    **{f"rows-{name}": Variant({"tensors": (name,), "zeros": Zeros(every=3)}) for name in NAMES},
    **{
        f"single-{name}": Variant({"tensors": (name,), "zeros": Zeros(single=True)})
        for name in NAMES
    },
}

TINY = {
    **{
        f"{name}-2^{n}": Variant({"tensors": (name,), "exponent": n})
        for name in NAMES
        for n in (-90, -100, -112, -120, -133)
    },
    **{
        f"far-keys-{gap}": Variant({"gap": float(gap)}, SCALE)
        for gap in (80, 88, 95, 100, 104, 150)
    },
    "do-falls": Variant({"falls": ("do",)}, flags=OTHER),
}

DISTINCT = {
    "powers-of-two": Variant({"ratio": 2.0}),
    "thirds": Variant({"ratio": 4 / 3}),
    "wide": Variant({"ratio": 8.0}),
    "channels": Variant({"channels": "sizes"}, flags=ALONG),
    "channel-tops": Variant({"ratio": 2.0, "channels": "tops"}, flags=ALONG),
    "v-channels": Variant({"channels": "columns"}, flags=OTHER),
}
CHANNELS = 32  # of a block that runs along the channels
PARTNER = {"k": "q", "do": "v"}  # whose channels are as small as these are large, in a dot
SPREAD, DEPTH = 12, 16  # binades between blocks, and below the largest channel inside of one
ROW_DEPTH = 8  # binades below the largest row
FALL, HIGHEST = 48, 10  # binades of rows that fall: from beyond static scales to below subnormals
TOPS = (16.0, 28.0, 28.125, 31.875)  # 448 times a power of two, its neighbour, ends of a binade


def zero_blocks(
    draws: Draws, problem: Problem, *, tensors: tuple[str, ...], zeros: Zeros
) -> Inputs:
    """Zeros in one block, in all of a tensor, in every n-th row, or everywhere but one element."""
    made = gaussian(draws, problem)
    for name in tensors:
        here = zeros.among(draws, made[name], OPERAND_BLOCK[name])
        made[name] = np.where(here, 0.0, made[name])
    return as_inputs(made)


def tiny(
    draws: Draws,
    problem: Problem,
    *,
    tensors: tuple[str, ...] = (),
    exponent: int = 0,
    gap: float = 0.0,
    falls: tuple[str, ...] = (),
) -> Inputs:
    """Tiny operands, or tiny probabilities.

    Tensors of size 2^exponent in every other block; or keys so far below the row's maximum that
    their probabilities, and the amax of their tiles, are subnormal or zero; or rows that fall from
    2^HIGHEST by a binade each, so that one block has codes of every size.
    """
    made = gaussian(draws, problem)
    for name in tensors:
        size = OPERAND_BLOCK[name]
        odd = (_block_index(made[name], size) % 2 == 1) | (made[name].shape[1] <= size)
        made[name] = np.where(odd, np.ldexp(made[name], exponent), made[name])
    for name in falls:
        rows = np.arange(made[name].shape[1])[:, None, None]
        made[name] = np.ldexp(made[name], HIGHEST - rows % FALL)
    if gap:
        made["q"][..., 0] = GAIN
        for name in ("q", "k"):
            made[name][..., 1:] *= 0.25
        made["k"][..., 0] = -gap * (_block_index(made["k"])[..., 0] >= 1)
    return as_inputs(made)


def distinct(draws: Draws, problem: Problem, *, ratio: float = 1.0, channels: str = "") -> Inputs:
    """Block b of every tensor enlarged by ratio^b, in an order of its own per tensor.

    Blocks of channels too: of very different ``sizes``, channel by channel, or each with one of the
    ``TOPS`` as its largest element, in a channel that no other tensor has its own in. Or the
    ``columns`` of v alone differ, and its first is zeros.
    """
    made = gaussian(draws, problem)
    if channels:
        CHANNEL_KINDS[channels](draws, problem, made)
    for name in NAMES:
        index = _block_index(made[name])
        count = int(index.max(initial=0)) + 1
        power = draws.order(f"{name} blocks", count)[index] - count // 2
        made[name] = made[name] * _integer_power(ratio, power)
    return as_inputs(made)


def _channel_sizes(draws: Draws, problem: Problem, made: dict[str, F64]) -> None:
    """Powers of two that cancel in q k and in dO v, and rows of q and dO that are smaller."""
    blocks = -(-problem.head_dim // CHANNELS)
    for name, other in PARTNER.items():
        between = draws.integers(f"{name} blocks", (blocks,), low=0, high=2 * SPREAD + 1)
        inside = draws.integers(f"{name} channels", (problem.head_dim,), low=0, high=DEPTH + 1)
        power = between.astype(np.int64).repeat(CHANNELS)[: problem.head_dim] - SPREAD
        power -= inside.astype(np.int64)
        made[name] = np.ldexp(made[name], power)
        made[other] = np.ldexp(made[other], -power)
    for name in ("q", "do"):
        x = made[name]
        below = draws.integers(f"{name} rows", x.shape[:3], low=0, high=ROW_DEPTH + 1)
        made[name] = np.ldexp(x, -below.astype(np.int64)[..., None])


def _channel_tops(draws: Draws, problem: Problem, made: dict[str, F64]) -> None:
    """One of the tops in turns, of random sign, in each block of channels of each token."""
    blocks = -(-problem.head_dim // CHANNELS)
    for place, name in enumerate(NAMES):
        x = made[name]
        np.clip(x, -8.0, 8.0, out=x)
        at = np.minimum(np.arange(blocks) * CHANNELS + 5 * place, problem.head_dim - 1)
        turn = np.arange(x.shape[1])[:, None, None] + np.arange(x.shape[2])[:, None]
        tops = np.array(TOPS)[(turn + np.arange(blocks)) % len(TOPS)]
        x[..., at] = tops * draws.signs(f"{name} signs", (*x.shape[:3], blocks))


def _columns(draws: Draws, problem: Problem, made: dict[str, F64]) -> None:
    """Channels of v between 2^-SPREAD and 2^SPREAD, in dO the other way; v's first is 0."""
    power = draws.integers("v columns", (problem.head_dim,), low=0, high=2 * SPREAD + 1)
    size = power.astype(np.int64) - SPREAD
    made["v"], made["do"] = np.ldexp(made["v"], size), np.ldexp(made["do"], -size)
    made["v"][..., 0] = 0.0


CHANNEL_KINDS = {"sizes": _channel_sizes, "tops": _channel_tops, "columns": _columns}


def _block_index(x: F64, size: int = BLOCK) -> I64:
    """The block of every token, broadcast to (B, N, H, D)."""
    index = (np.arange(x.shape[1]) // size)[None, :, None, None]
    return np.broadcast_to(index, x.shape)


def _integer_power(base: float, exponent: I64) -> F64:
    """base^exponent by repeated multiplication, the same on every platform."""
    result = np.ones(exponent.shape)
    for step in range(int(np.abs(exponent).max(initial=0))):
        result = np.where(np.abs(exponent) > step, result * base, result)
    return np.where(exponent < 0, 1.0 / result, result)
