"""How exhaustive sweeps are hashed: in blocks of 2^20 outputs of consecutive inputs."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 20
DIGEST_BYTES = 8


def digest(outputs: NDArray[Any]) -> bytes:
    """BLAKE2b of a block's output bits, little-endian, cut to 64 bits."""
    little = np.ascontiguousarray(outputs, outputs.dtype.newbyteorder("<"))
    return hashlib.blake2b(little.data, digest_size=DIGEST_BYTES).digest()
