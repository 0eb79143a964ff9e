"""Stripes: how the backward is cut so that its code records fit a workspace.

B writes the codes of P^T and dS^T as records, G reads them: 8224 bytes for 64 queries and 64 keys,
unless no query sees a key of them. A unit is 128 queries of a head. Records of one stripe of units
exist at once, so the workspace decides how many units a stripe has; the bits do not depend on it.

| workspace | units of a stripe |
|---|---|
| None | ``MOST_UNITS`` while they fit ``USUAL_BYTES``, then fewer, but not below ``LEAST_UNITS`` |
| a number of bytes | as many as fit |

Below ``LEAST_UNITS``, two a multiprocessor, causal blocks of unequal length no longer even out:
half as many took 1.9 times as long at 16,384 tokens, D = 128. A stripe that is smaller than a group
of query heads takes one head of each of several groups, where there are so many: G then has more
key blocks to share out than those of one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .errors import UnsupportedError

RECORD = 2 * 64 * 64 + 32  # bytes for 64 queries and 64 keys, as in layout.cuh
TILE = 64
MOST_UNITS = 528
LEAST_UNITS = 256
USUAL_BYTES = 1_150_000_000


@dataclass(frozen=True)
class Shape:
    """Sizes of one problem: Q is (B, Nq, H, D), K and V are (B, Nk, Hkv, D)."""

    batch: int
    heads: int
    kv_heads: int
    nq: int
    nk: int
    head_dim: int

    @property
    def q_blocks(self) -> int:
        """Number of 128-query blocks of a head."""
        return -(-self.nq // 128)

    @property
    def k_blocks(self) -> int:
        """Number of 128-key blocks of a head."""
        return -(-self.nk // 128)


@dataclass(frozen=True)
class Stripe:
    """A set of units whose code records exist at once: heads x query blocks.

    Attributes:
        first_head: The first of its heads, of all batches.
        head_step: From one head to the next: 1, or a group of query heads.
        heads: How many.
        first_block: The first 128-query block of each.
        blocks: How many.
    """

    first_head: int
    head_step: int
    heads: int
    first_block: int
    blocks: int


def stripes(shape: Shape, *, units: int) -> list[Stripe]:
    """Cuts the backward into stripes of at most `units` units, whole heads first.

    Whole groups of heads when they fit, so that sums need not rest between stripes. In each group
    the order is that of the reduction: heads ascending, query blocks ascending.
    """
    lead, blocks, group = shape.batch * shape.heads, shape.q_blocks, shape.heads // shape.kv_heads
    heads, groups = units // blocks, lead // group
    if not heads:
        starts = range(0, blocks, units)
        return [Stripe(h, 1, 1, b, min(units, blocks - b)) for h in range(lead) for b in starts]
    if 1 < heads < group and heads <= groups:
        cuts = even_cuts(groups, heads)
        return [
            Stripe(a * group + i, group, b - a, 0, blocks)
            for a, b in pairwise(cuts)
            for i in range(group)
        ]
    if heads >= group:
        cuts = even_cuts(groups, heads // group)
        return [Stripe(a * group, 1, (b - a) * group, 0, blocks) for a, b in pairwise(cuts)]
    cuts = even_cuts(group, heads)
    firsts = range(0, lead, group)
    return [Stripe(g + a, 1, b - a, 0, blocks) for g in firsts for a, b in pairwise(cuts)]


def even_cuts(count: int, most: int) -> list[int]:
    """Where to cut `count` things into as few parts as can be, of at most `most`, alike in size."""
    parts = -(-count // most)
    return [count * i // parts for i in range(parts + 1)]


def records_before(shape: Shape, block: int, *, causal: bool) -> int:
    """Records of a head before those of its block of 64 queries: one for each tile that one sees.

    ``records_before`` of tasks.cuh.
    """
    most = -(-shape.nk // TILE)
    if not causal:
        return block * most
    first = 1 + -(-(shape.nk - shape.nq) // TILE)  # tiles that block 0 sees, or would below 0
    return staircase(block + first, most) - staircase(first, most)


def staircase(x: int, most: int) -> int:
    """Sum of max(0, min(y, most)) over y < x."""
    rise = min(max(x, 0), most)
    return rise * (rise - 1) // 2 + most * max(0, x - most)


def records_in(shape: Shape, stripe: Stripe, *, causal: bool) -> int:
    """Records of a stripe."""
    ends = (2 * stripe.first_block, 2 * (stripe.first_block + stripe.blocks))
    first, end = (records_before(shape, block, causal=causal) for block in ends)
    return stripe.heads * (end - first)


def unit_bytes(keys: int) -> int:
    """Most bytes that the records of one unit take: of all keys, in blocks of 128."""
    return 2 * 2 * -(-keys // 128) * RECORD


def units_in(workspace: int | None, shape: Shape, *, causal: bool) -> int:
    """Units of a stripe, by the table above.

    Args:
        workspace: Bytes that the records may take, or None.
        shape: Of the problem, none of whose lengths is 0.
        causal: Whether a block has records of the keys alone that it sees.

    Raises:
        UnsupportedError: The workspace is no number of bytes, or holds no unit.
    """
    check_workspace(workspace, shape.nk)
    room = USUAL_BYTES if workspace is None else workspace
    blocks = shape.q_blocks
    head = RECORD * max(1, records_before(shape, 2 * blocks, causal=causal))
    units = room // head * blocks or room // unit_bytes(shape.nk)
    return units if workspace is not None else min(MOST_UNITS, max(LEAST_UNITS, units))


def check_workspace(workspace: int | None, keys: int) -> None:
    """Refuses a workspace that is no number of bytes or holds no unit.

    Raises:
        UnsupportedError: With the least that is needed.
    """
    if workspace is None:
        return
    whole = isinstance(workspace, int) and not isinstance(workspace, bool)
    least = unit_bytes(keys)
    if not whole or not least <= workspace < 1 << 63:
        raise UnsupportedError(
            f"workspace_bytes={workspace!r}",
            rule=f"it is None or an integer from {least}, the records of 128 queries and {keys} "
            "keys, to 2^63 - 1",
            fix=f"pass {least} or more, or None",
        )
