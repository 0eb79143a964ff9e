"""Attention with an online softmax in float32, tile by tile, as the public kernels do it.

Written from the papers of FlashAttention-2 and 3: running maximum m, rescaled l and O, P rounded
relative to m, l from the unrounded P; backward from the stored O and LSE. It shares no arithmetic
with the specification. Each step that a known wrong kernel gets wrong is a switch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Online:
    """How the kernel goes about it.

    Attributes:
        tile: Keys of a tile.
        p: ``bf16`` or ``e4m3``.
        scale_first: Whether dS takes the softmax scale before its cast.
        wrong: A word of ``WRONG``, or nothing.
    """

    tile: int = 64
    p: str = "bf16"
    scale_first: bool = False
    wrong: str = ""


WRONG = (
    "last tile dropped",
    "no rescale of O",
    "P rounded toward zero",
    "P in E5M2",
    "top-left mask",
    "scale twice in dK",
    "delta of the row above",
    "delta zero",
    "dS not rounded to nearest",
)


def forward(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool, how: Online
) -> tuple[Tensor, Tensor]:
    """O before its store and LSE of float32 (N, D) operands."""
    n, m = len(q), len(k)
    shift = 0 if how.wrong == "top-left mask" else m - n
    peak, total = torch.full((n, 1), -math.inf), torch.zeros(n, 1)
    o = torch.zeros(n, v.shape[1])
    c = torch.tensor(scale * LOG2E, dtype=torch.float32)
    stop = m - how.tile if how.wrong == "last tile dropped" else m
    for j in range(0, stop, how.tile):
        s = q @ k[j : j + how.tile].T
        seen = torch.arange(j, j + s.shape[1])[None] <= torch.arange(n)[:, None] + shift
        s = s.masked_fill(~seen, -math.inf) if causal else s
        new = torch.maximum(peak, s.amax(1, keepdim=True))
        safe = new.where(new > -math.inf, torch.zeros(()))
        alpha = torch.exp2((peak - safe) * c)
        e = torch.exp2(s * c - safe * c)
        total = total * alpha + e.sum(1, keepdim=True)
        o = o * (1.0 if how.wrong == "no rescale of O" else alpha)
        o = o + rounded_p(e, how) @ v[j : j + how.tile]
        peak = new
    live = total > 0
    lse = (peak * c + torch.log2(total)) / LOG2E
    o = o / total.where(live, torch.ones(()))
    return o, lse.where(live, torch.tensor(-math.inf))[:, 0]


def rounded_p(e: Tensor, how: Online) -> Tensor:
    """P as the second product takes it."""
    if how.p == "bf16":
        if how.wrong == "P rounded toward zero":
            return (e.view(torch.int32) & -65536).view(torch.float32)
        return e.to(torch.float8_e5m2 if how.wrong == "P in E5M2" else torch.bfloat16).float()
    codes = e * 256
    if how.wrong == "P rounded toward zero":
        near = codes.to(torch.float8_e4m3fn).float()
        down = torch.where(near > codes, near * (1 - 2.0**-4), near)
        return down.to(torch.float8_e4m3fn).float() / 256
    form = torch.float8_e5m2 if how.wrong == "P in E5M2" else torch.float8_e4m3fn
    return codes.to(form).float() / 256


def backward(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, o: Tensor, lse: Tensor, *, scale: float,
    causal: bool, how: Online, units: dict[str, float],
) -> dict[str, Tensor]:  # fmt: skip
    """Gradients before their store, from O and LSE as they were stored."""
    n, m = len(q), len(k)
    seen = torch.ones(n, m, dtype=torch.bool)
    if causal:
        seen = torch.arange(m)[None] <= torch.arange(n)[:, None] + m - n
    s = (q @ k.T * scale).masked_fill(~seen, -math.inf)
    p = torch.exp(s - lse.where(lse > -math.inf, torch.zeros(()))[:, None])
    delta = (do * o).sum(1, keepdim=True)
    if how.wrong == "delta of the row above":
        delta = delta.roll(1, 0)
    if how.wrong == "delta zero":
        delta = torch.zeros_like(delta)
    ds = p * (do @ v.T - delta)
    before = scale if how.scale_first else 1.0
    after = scale / before
    ds8 = _cast(ds * before, how, units.get("ds", 1.0))
    p8 = _cast(p, how, 256.0)
    twice = scale if how.wrong == "scale twice in dK" else 1.0
    return {"dq": ds8 @ k * after, "dk": ds8.T @ q * after * twice, "dv": p8.T @ do}


def _cast(x: Tensor, how: Online, unit: float) -> Tensor:
    if how.wrong == "dS not rounded to nearest":
        coarse = x.to(torch.float8_e5m2 if how.p == "bf16" else torch.float8_e4m3fn).float()
        return coarse if how.p == "bf16" else coarse * 1.07
    if how.p == "bf16":
        return x.bfloat16().float()
    return (x * unit).clamp(-448, 448).to(torch.float8_e4m3fn).float() / unit
