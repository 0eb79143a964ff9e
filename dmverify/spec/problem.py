"""The problem: what is asked of an attention kernel, apart from its numerics.

Shapes follow one convention everywhere: tensors are (batch, length, heads, head_dim), per-row
quantities are (batch, heads, length). A causal mask is aligned to the bottom right: query i sees
key j when ``j <= i + keys - queries``, so a query may see no key at all (a dead row).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError

HEAD_DIM_STEP = 32  # one FP8 wgmma instruction contracts 32 channels


@dataclass(frozen=True)
class Problem:
    """Sizes, mask and softmax scale of one attention call.

    Attributes:
        batch: Number of sequences, 0 allowed.
        heads: Query heads, a multiple of ``kv_heads``.
        kv_heads: Key and value heads.
        queries: Query length, 0 allowed.
        keys: Key length, 0 allowed.
        head_dim: Channels a head, a multiple of 32.
        causal: Bottom-right causal mask, or none.
        softmax_scale: Factor of the logits; ``None`` means ``head_dim ** -0.5``.

    Raises:
        InputError: If a size is negative or does not divide, or the scale is not finite.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool = True
    softmax_scale: float | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "queries", "keys"):
            if getattr(self, name) < 0:
                raise InputError(
                    f"{name}={getattr(self, name)}", rule="sizes are not negative", fix="pass >= 0"
                )
        if self.kv_heads < 1 or self.heads < 1 or self.heads % self.kv_heads:
            raise InputError(
                f"heads={self.heads}, kv_heads={self.kv_heads}",
                rule="every key head serves the same number (at least 1) of query heads",
                fix="make heads a multiple of kv_heads",
            )
        if self.head_dim < HEAD_DIM_STEP or self.head_dim % HEAD_DIM_STEP:
            raise InputError(
                f"head_dim={self.head_dim}",
                rule="one FP8 wgmma contracts 32 channels",
                fix="use a positive multiple of 32 (pad with zero channels)",
            )
        if self.softmax_scale is not None:
            self._require_scale(self.softmax_scale)

    def _require_scale(self, scale: float) -> None:
        with np.errstate(over="ignore", under="ignore"):
            single = float(np.float32(scale))
        if not math.isfinite(single) or (single == 0) != (scale == 0):
            raise InputError(
                f"softmax_scale={scale}",
                rule="the softmax scale is a finite float32, and 0 only if it is 0",
                fix="pass a number between 1.5e-45 and 3.4e38 in magnitude, 0 or None",
            )

    @property
    def scale(self) -> float:
        """The softmax scale in use, rounded to float32 as a kernel receives it."""
        scale = self.head_dim**-0.5 if self.softmax_scale is None else self.softmax_scale
        return float(np.float32(scale))

    @property
    def group(self) -> int:
        """Query heads that share one key head."""
        return self.heads // self.kv_heads

    @property
    def offset(self) -> int:
        """Keys minus queries: query i sees keys up to ``i + offset`` under a causal mask."""
        return self.keys - self.queries

    def mask(self, queries: int | None = None, keys: int | None = None) -> npt.NDArray[np.bool_]:
        """Who sees whom, True where a key takes part; padded to (queries, keys) with False."""
        rows = self.queries if queries is None else queries
        columns = self.keys if keys is None else keys
        i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
        seen = (i < self.queries) & (j < self.keys)
        return seen & (j <= i + self.offset) if self.causal else seen

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input and output tensor, by name."""
        wide = (self.batch, self.queries, self.heads, self.head_dim)
        narrow = (self.batch, self.keys, self.kv_heads, self.head_dim)
        rows = (self.batch, self.heads, self.queries)
        return {
            **dict.fromkeys(("q", "do", "o", "dq"), wide),
            **dict.fromkeys(("k", "v", "dk", "dv"), narrow),
            **dict.fromkeys(("lse", "delta"), rows),
        }
