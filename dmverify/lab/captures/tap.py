"""Plain softmax attention with a tap: the four tensors that cross the operator's boundary in BF16.

While a capture is taken, q, k, v and the output O are cast to BF16 at the boundary, and so autograd
hands back dO in BF16 too. What is recorded is therefore exactly what a BF16 attention operator
would be given in that step, not a float32 tensor that was rounded afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

BF16Bits = np.ndarray[tuple[int, ...], np.dtype[np.uint16]]


@dataclass
class Tap:
    """Collects (q, k, v, O) of every attention call while it is passed along.

    Attributes:
        boundary: Dtype at the operator's boundary; float32 records without rounding.
        calls: One tuple per attention call, in call order, each tensor (B, N, H, D).
    """

    boundary: torch.dtype = torch.bfloat16
    calls: list[tuple[torch.Tensor, ...]] = field(default_factory=list)

    def cast(self, x: torch.Tensor) -> torch.Tensor:
        """Cast to the boundary's dtype."""
        return x.to(self.boundary)

    def tensors(self) -> Iterator[dict[str, torch.Tensor]]:
        """Yield q, k, v, do of each call; only valid after the backward pass."""
        for q, k, v, o in self.calls:
            assert o.grad is not None, "tensors() before the backward pass"
            yield {"q": q.detach(), "k": k.detach(), "v": v.detach(), "do": o.grad}


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, tap: Tap | None = None
) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(D)) v in float32, each tensor (B, N, H, D)."""
    if tap is not None:
        q, k, v = tap.cast(q), tap.cast(k), tap.cast(v)
    logits = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
        logits = logits.masked_fill(hidden, -torch.inf)
    o = torch.einsum("bhij,bjhd->bihd", logits.softmax(-1), v.float())
    if tap is None:
        return o
    o = tap.cast(o)
    o.retain_grad()
    tap.calls.append((q, k, v, o))
    return o.float()


def bf16_bits(x: torch.Tensor) -> BF16Bits:
    """Return the bit patterns of a BF16 tensor as uint16."""
    bits: BF16Bits = x.contiguous().view(torch.int16).numpy().view(np.uint16)
    return bits
