"""Stripes: how the backward is cut so that its code records fit a workspace.

B writes the codes of P^T and dS^T as records, G reads them. A unit, 128 queries of a head, takes
2 x 8224 bytes for every 64 keys. Records of one stripe of units exist at once, so the workspace
decides how many units a stripe has; the bits do not depend on it.

| workspace | units of a stripe |
|---|---|
| None | ``MOST_UNITS`` while they fit ``USUAL_BYTES``, then fewer, but not below ``LEAST_UNITS`` |
| a number of bytes | as many as fit |

Below ``LEAST_UNITS``, two a multiprocessor, causal blocks of unequal length no longer even out:
half as many took 1.9 times as long at 16,384 tokens, D = 128.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .errors import UnsupportedError

RECORD = 2 * 64 * 64 + 32  # bytes for 64 queries and 64 keys, as in layout.cuh
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
    """A set of units whose code records exist at once: heads x query blocks."""

    first_head: int
    heads: int
    first_block: int
    blocks: int


def stripes(shape: Shape, *, units: int) -> list[Stripe]:
    """Cuts the backward into stripes of at most `units` units, whole heads first.

    Whole groups of heads when they fit, so that sums need not rest between stripes. The order is
    that of the reduction: heads ascending, query blocks ascending.
    """
    lead, blocks, group = shape.batch * shape.heads, shape.q_blocks, shape.heads // shape.kv_heads
    if units >= blocks:
        heads = units // blocks
        heads = heads // group * group if heads >= group else heads
        cuts = [0]
        while cuts[-1] < lead:  # a stripe that is smaller than a group must not cross into the next
            limit = cuts[-1] + heads
            edge = (cuts[-1] // group + 1) * group
            cuts.append(min(lead, limit if heads >= group else min(limit, edge)))
        return [Stripe(a, b - a, 0, blocks) for a, b in pairwise(cuts)]
    starts = range(0, blocks, units)
    return [Stripe(h, 1, b, min(units, blocks - b)) for h in range(lead) for b in starts]


def unit_bytes(keys: int) -> int:
    """Bytes that the records of one unit take, with Nk keys."""
    return 2 * 2 * -(-keys // 128) * RECORD


def units_in(workspace: int | None, keys: int) -> int:
    """Units of a stripe, by the table above.

    Args:
        workspace: Bytes that the records may take, or None.
        keys: Nk.

    Raises:
        UnsupportedError: The workspace is no number of bytes, or holds no unit.
    """
    unit = unit_bytes(keys)
    if workspace is None:
        return min(MOST_UNITS, max(LEAST_UNITS, USUAL_BYTES // unit))
    check_workspace(workspace, keys)
    return workspace // unit


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
