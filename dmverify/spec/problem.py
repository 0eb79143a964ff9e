"""The problem: what is asked of an attention kernel, apart from its numerics.

Shapes follow one convention everywhere: tensors are (batch, length, heads, head_dim), per-row
quantities are (batch, heads, length). A causal mask is aligned to the bottom right: query i sees
key j when ``j <= i + keys - queries``, so a query may see no key at all (a dead row).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError

HEAD_DIM_STEP = 32  # one FP8 wgmma instruction contracts 32 channels
SIZES = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim")


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

    Whole numbers of other libraries become ``int``, real ones ``float``.

    Raises:
        InputError: If a size is no whole number, is negative or does not divide, ``causal`` is no
            bool, or the scale is no finite number.
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
        for name in SIZES:
            self._require(name, Integral, "a size is a whole number", "an int")
            object.__setattr__(self, name, int(getattr(self, name)))
        if not isinstance(self.causal, bool):
            raise InputError(
                f"causal={self.causal!r:.60}",
                rule="the mask is bottom-right causal (True) or none (False); there is no other",
                fix="pass True or False",
            )
        self._require_sizes()
        if self.softmax_scale is not None:
            self._require("softmax_scale", Real, "the softmax scale is a number", "a float or None")
            object.__setattr__(self, "softmax_scale", _finite(self.softmax_scale))

    def _require(self, name: str, kind: type, rule: str, fix: str) -> None:
        found = getattr(self, name)
        if isinstance(found, bool) or not isinstance(found, kind):
            raise InputError(f"{name}={found!r:.60}", rule=rule, fix=f"pass {fix}")

    def _require_sizes(self) -> None:
        for name in ("batch", "queries", "keys"):
            if getattr(self, name) < 0:
                raise InputError(
                    f"{name}={getattr(self, name)}",
                    rule="sizes are not negative",
                    fix=f"pass {name} >= 0",
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


def _finite(scale: float) -> float:
    """The scale as a float.

    Raises:
        InputError: If it is not finite in float32, or 0 there only.
    """
    try:
        exact = float(scale)
    except OverflowError:  # a whole number or a fraction beyond float64
        exact = math.inf
    with np.errstate(over="ignore", under="ignore"):
        single = float(np.float32(exact))
    if not math.isfinite(single) or (single == 0) != (scale == 0):
        raise InputError(
            f"softmax_scale={exact}",
            rule="the softmax scale is a finite float32, and 0 only if it is 0",
            fix="pass a number between 1.5e-45 and 3.4e38 in magnitude, 0 or None",
        )
    return exact
