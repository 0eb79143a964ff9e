"""What is worth knowing about a capture before it meets a kernel, per head.

| name | meaning |
|---|---|
| sharpness | median over the rows of the largest probability: 1 looks at one key, 1/N at all |
| k_offset, v_offset | largest over the channels of abs(mean over the keys) / standard deviation |
| lse | smallest and largest logarithm (natural) of a row's sum of exponentials |
| amax | largest magnitude in q, k, v, do |

Offsets are what centring removes and what fills an FP8 block with one sign. Float64 throughout.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Float32 = NDArray[np.float32]


def _rows(q: Float32, k: Float32, *, causal: bool, softmax_scale: float) -> tuple[Float64, Float64]:
    """Return LSE and the largest probability of each row, (B, H, N) both."""
    product = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k.astype(np.float64))
    logits = product * softmax_scale
    if causal:
        logits[..., np.triu(np.ones(logits.shape[-2:], dtype=bool), 1)] = -np.inf
    peak = logits.max(-1)
    total = np.exp(logits - peak[..., None]).sum(-1)
    return peak + np.log(total), 1 / total


def offset(x: Float32) -> Float64:
    """Return (H,): the largest abs(mean) / std over batch and channels of x (B, N, H, D)."""
    wide = x.astype(np.float64)
    ratio: Float64 = np.abs(wide.mean(1)) / wide.std(1)
    largest: Float64 = ratio.max((0, 2))
    return largest


def statistics(
    tensors: Mapping[str, Float32], *, causal: bool, softmax_scale: float
) -> dict[str, list[float]]:
    """Return the table above for q, k, v and do by name, (B, N, H, D) each, to four digits."""
    q, k, v, do = (tensors[name] for name in ("q", "k", "v", "do"))
    lse, largest = _rows(q, k, causal=causal, softmax_scale=softmax_scale)
    heads = q.shape[2]
    table = {
        "sharpness": np.median(np.moveaxis(largest, 1, 0).reshape(heads, -1), axis=1),
        "k_offset": offset(k),
        "v_offset": offset(v),
        "lse": np.array([lse.min(), lse.max()]),
        "amax": np.array([np.abs(x).max() for x in (q, k, v, do)]),
    }
    return {name: [float(f"{x:.4g}") for x in values] for name, values in table.items()}
