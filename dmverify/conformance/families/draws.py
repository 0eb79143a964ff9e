"""Random numbers that a case id regenerates on any machine.

The source is the raw 64-bit output of Philox4x64-10 (Salmon et al., SC 2011), a counter-based
generator whose stream numpy keeps stable. Its 128-bit key is the first half of
SHA-256("family/stream@seed"), so every tensor of every family has a stream of its own and the
variants of one family share theirs. From the raw integers r:

    uniform    (r >> 11) 2^-53, in [0, 1)
    sign       -1 if the top bit of r is set, else +1
    integer    low + floor(uniform (high - low))
    normal     sqrt(-2 ln(1 - u_(2i))) cos(2 pi u_(2i+1))         (Box and Muller, 1958)
    order      the stable ascending order of n raw integers

with ln and cos of ``elementary``; no distribution of any library takes part.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dmverify.conformance.families.elementary import F64, cos_turns, ln

AT_ONCE = 2**18  # normal numbers that are made at a time: they pass through a dozen arrays
STREAMS = 8  # whose normal numbers are kept: a family's cases, which follow each other, share them
KEPT = 2**17  # normal numbers of each, at most


class Draws:
    """The random numbers of one family and seed.

    Args:
        family: Name of the family.
        seed: Any integer >= 0.
    """

    def __init__(self, family: str, seed: int) -> None:
        self._family = family
        self._seed = seed

    def raw(self, stream: str, count: int) -> npt.NDArray[np.uint64]:
        """The first ``count`` raw integers of a stream."""
        raw: npt.NDArray[np.uint64] = self._source(stream).random_raw(count)
        return raw

    def uniform(self, stream: str, shape: Sequence[int]) -> F64:
        """Multiples of 2^-53 in [0, 1)."""
        return _unit(self.raw(stream, math.prod(shape))).reshape(shape)

    def signs(self, stream: str, shape: Sequence[int]) -> F64:
        """-1 or +1."""
        raw = self.raw(stream, math.prod(shape))
        return np.where(raw >> np.uint64(63), -1.0, 1.0).reshape(shape)

    def integers(self, stream: str, shape: Sequence[int], *, low: int, high: int) -> F64:
        """Whole numbers in [low, high)."""
        return low + np.floor(self.uniform(stream, shape) * (high - low))

    def normal(self, stream: str, shape: Sequence[int]) -> F64:
        """Standard normal numbers; each depends on two raw integers of its own."""
        count = math.prod(shape)
        if count > KEPT:
            return _normal(self._source(stream), count).reshape(shape)
        key = (self._family, stream, self._seed)
        kept = _kept.pop(key, None)
        if kept is None or len(kept) < count:
            kept = _normal(self._source(stream), count)
        _kept[key] = kept  # the last one used
        if len(_kept) > STREAMS:
            del _kept[next(iter(_kept))]
        return kept[:count].reshape(shape).copy()

    def order(self, stream: str, count: int) -> npt.NDArray[np.int64]:
        """A permutation of 0 .. count - 1."""
        return np.argsort(self.raw(stream, count), kind="stable").astype(np.int64)

    def _source(self, stream: str) -> np.random.Philox:
        """A stream from its first integer on."""
        text = f"{self._family}/{stream}@{self._seed}".encode()
        key = np.frombuffer(hashlib.sha256(text).digest()[:16], dtype="<u8")
        return np.random.Philox(key=key)


_kept: dict[tuple[str, str, int], F64] = {}  # first normal numbers of some streams


def _normal(source: np.random.Philox, count: int) -> F64:
    found = np.empty(count)
    for start in range(0, count, AT_ONCE):
        some = found[start : start + AT_ONCE]
        pairs = _unit(source.random_raw(2 * len(some))).reshape(-1, 2)
        some[...] = np.sqrt(-2.0 * ln(1.0 - pairs[:, 0])) * cos_turns(pairs[:, 1])
    return found


def _unit(raw: npt.NDArray[np.uint64]) -> F64:
    """Raw integers as multiples of 2^-53 in [0, 1)."""
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
