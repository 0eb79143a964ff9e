"""Sizes up to which the kernels count right: asked before the first launch of a call.

| limit | why |
|---|---|
| Nk <= ``MOST_KEYS`` | B keeps one word a key tile and half in shared memory (``TABLE_TILES``) |
| B x H x ceil(N / 128) <= ``MOST_BLOCKS``, for queries and for keys | tokens of a head, and the |
| | place of a head in a token's row, are 32-bit integers: both stay within 2^30 |
| an integer argument fits 32 bits | the kernels declare ``int``; strides are 64-bit |

Everything larger is a 64-bit product in the kernels: images, records, rows of statistics, outputs.
The first dimension of a grid, the only one in use, ends at 2^31 - 1 CTAs: above three times
``MOST_BLOCKS``, the largest launch of the quantiser.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import UnsupportedError

MOST_KEYS = 131_072
MOST_BLOCKS = 1 << 23
INT = 1 << 31


def check_sizes(q: Sequence[int], k: Sequence[int]) -> None:
    """Refuses sizes at which the kernels would count wrong.

    Args:
        q: Sizes of Q, (B, Nq, H, D).
        k: Sizes of K, (B, Nk, Hkv, D).

    Raises:
        UnsupportedError: More keys or more blocks of 128 tokens than are served.
    """
    if k[1] > MOST_KEYS:
        raise UnsupportedError(k[1], rule=f"Nk <= {MOST_KEYS}", fix="change the shapes")
    for name, (batch, n, heads, _) in (("queries", q), ("keys", k)):
        blocks = batch * heads * ((n + 127) // 128)
        if blocks > MOST_BLOCKS:
            rule = f"B x H x ceil(N / 128) <= {MOST_BLOCKS}, for queries and for keys"
            fix = "split the batch into several calls"
            raise UnsupportedError(f"{blocks} blocks of {name}", rule=rule, fix=fix)


def check_int(value: int) -> int:
    """The value itself, which a kernel takes as a 32-bit integer.

    Raises:
        UnsupportedError: It does not fit, and would be taken modulo 2^32.
    """
    if not -INT <= value < INT:
        rule = "an integer argument of a kernel fits 32 bits"
        raise UnsupportedError(value, rule=rule, fix="split the batch into several calls")
    return value
