"""Causal attention by a recipe, forward and backward, for many heads at once.

G heads (seeds, sequences and heads together), N tokens, D channels. Steps and symbols are those of
``dmverify.spec.attention.rows``; what is rounded, and how, the recipe says. All products are
float32 matmuls, in whatever order torch sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from dmverify.studies.training.casts import cast, max_shift
from dmverify.studies.training.fuse import fused
from dmverify.studies.training.recipe import Recipe
from dmverify.studies.training.watch import Watch

HALF_BF16, KEPT_BF16 = 0x7FFF, -0x10000  # what rounds the lower 16 bits, and what keeps the upper


@dataclass(frozen=True)
class Forward:
    """What the backward reads; operands after the cast, and V before it."""

    q: Tensor
    k: Tensor
    v: Tensor
    v_in: Tensor
    e: Tensor
    e8: Tensor
    l: Tensor  # noqa: E741 - the field's symbol
    norm: Tensor
    o32: Tensor
    o: Tensor


@dataclass(frozen=True)
class Backward:
    """Gradients, and dS before and after its cast."""

    p: Tensor
    ds: Tensor
    ds8: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor


def bf16(x: Tensor) -> Tensor:
    """float32 rounded to the nearest BF16, ties to even, as float32.

    In integers: a compiler may leave out a conversion to BF16 and back, and with it the rounding.
    """
    bits = x.contiguous().view(torch.int32)
    carried = bits + (HALF_BF16 + (bits >> 16 & 1))
    return (carried & KEPT_BF16).view(torch.float32)


def centred(x: Tensor) -> Tensor:
    """The tensor without its mean over the tokens."""
    return x - x.mean(-2, keepdim=True)


def forward(recipe: Recipe, q: Tensor, k: Tensor, v: Tensor) -> Forward:
    """Steps 1 to 6 of causal attention; k, v are (G, N, D), q the last of N queries, (G, M, D)."""
    (m, d), n = q.shape[-2:], k.shape[-2]
    fp8 = recipe.arithmetic == "fp8"
    if recipe.act == "freeze":
        k = centred(k)
    if recipe.arithmetic != "exact":
        q, k, v = bf16(q), bf16(k), bf16(v)
    v_in = v
    if fp8:
        k = centred(k) if recipe.centre_k == "mean" else k
        q, k = cast(q, recipe, "q"), cast(k, recipe, "k")
        v = cast(v, recipe, "v", turned=True)
    s = torch.bmm(q, k.mT) * d**-0.5
    hidden = torch.ones(m, n, dtype=torch.bool, device=q.device).triu(1 + n - m)
    s = s.masked_fill(hidden, -math.inf)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    e8 = _weights(recipe, e) if fp8 else e
    l = e.sum(-1, keepdim=True)  # noqa: E741
    norm = e8.sum(-1, keepdim=True) if recipe.normaliser == "codes" else l
    o32 = torch.bmm(e8, v) / norm
    o = o32 if recipe.arithmetic == "exact" else bf16(o32)
    return Forward(q, k, v, v_in, e, e8, l, norm, o32, o)


def _weights(recipe: Recipe, e: Tensor) -> Tensor:
    return max_shift(e) if recipe.p_cast == "max-shift" else cast(e, recipe, "e")


def backward(recipe: Recipe, fwd: Forward, do: Tensor) -> Backward:
    """Steps 7 to 11; do is (G, N, D). Of two dS, the one that is stale is shown."""
    fp8 = recipe.arithmetic == "fp8"
    do = do if recipe.arithmetic == "exact" else bf16(do)
    do8 = cast(do, recipe, "do") if fp8 else do
    p = fwd.e8 / fwd.norm if recipe.delta == "associated" else fwd.e / fwd.l
    dp = torch.bmm(do, fwd.v_in.mT) if recipe.dp == "bf16" else torch.bmm(do8, fwd.v.mT)
    ds, of_q, of_k = gradients_of_s(recipe, fwd, (p, dp), (do, do8))
    p8 = cast(p, recipe, "p") if fp8 else p
    scale = fwd.q.shape[-1] ** -0.5
    dq = torch.bmm(of_q, fwd.k) * scale
    dk = torch.bmm(of_k.mT, fwd.q) * scale
    dv = torch.bmm(p8.mT, do8)
    if recipe.store == "bf16":
        dq, dk, dv = bf16(dq), bf16(dk), bf16(dv)
    ds8 = of_k if recipe.act == "stale-dk" else of_q
    return Backward(p, ds, ds8, dq, acted(recipe, fwd, do, dk), dv)


def gradients_of_s(
    recipe: Recipe, fwd: Forward, rows: tuple[Tensor, Tensor], do: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """dS before its cast, and after it as dQ's and as dK's product take it."""
    ds = DELTAS[recipe.delta](fwd, *rows, do)
    if recipe.act == "alternate":
        matched = DELTAS["matched"](fwd, *rows, do)
        ds = matched + alternating(ds) * (ds - matched)
    ds8 = cast(ds, recipe, "ds") if recipe.arithmetic == "fp8" else ds
    if recipe.act not in ("stale-dq", "stale-dk"):
        return ds, ds8, ds8
    stale = DELTAS["stale"](fwd, *rows, do)
    stale8 = cast(stale, recipe, "ds")
    return (stale, stale8, ds8) if recipe.act == "stale-dq" else (stale, ds8, stale8)


def alternating(ds: Tensor) -> Tensor:
    """1 and -1 by turns down the rows of dS, (M, 1)."""
    return 1 - 2 * (torch.arange(ds.shape[-2], device=ds.device) % 2).to(ds.dtype).unsqueeze(-1)


def acted(recipe: Recipe, fwd: Forward, do: Tensor, dk: Tensor) -> Tensor:
    """dK after the recipe's intervention."""
    if recipe.act in ("project", "freeze"):
        return centred(dk)
    if recipe.act == "inject":
        return centred(dk) + stale_mean(recipe, fwd, do)
    return dk


def stale_mean(recipe: Recipe, fwd: Forward, do: Tensor) -> Tensor:
    """The mean over the keys of dK that FP8 attention with a stale delta would return: (G, 1, D).

    For exact attention the FP8 forward is made beside it, from the same operands.
    """
    stale = Recipe("fp8", "stale", centre_k=recipe.centre_k)
    if recipe.arithmetic == "exact":
        fwd = forward(stale, fwd.q, fwd.k, fwd.v)
    return backward(stale, fwd, do).dk.mean(-2, keepdim=True)


Rule = Callable[[Forward, Tensor, Tensor, tuple[Tensor, Tensor]], Tensor]


def _sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def _compensated(fwd: Forward, p: Tensor, dp: Tensor, do: tuple[Tensor, Tensor]) -> Tensor:
    """Matched in float64, which pairs of float32 numbers emulate."""
    wide, slope = p.double(), dp.double()
    return (wide * (slope - _sum(wide * slope))).to(p.dtype)


def _shifted(fwd: Forward, p: Tensor, dp: Tensor, do: tuple[Tensor, Tensor]) -> Tensor:
    moved = dp - dp.gather(-1, fwd.e.argmax(-1, keepdim=True))
    return p * (moved - _sum(p * moved) / _sum(p))


# dS of every delta mode, from P, dP and dO before and after its cast.
DELTAS: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "stale": lambda fwd, p, dp, do: p * (dp - _sum(do[0] * fwd.o)),
        "consistent": lambda fwd, p, dp, do: p * (dp - _sum(do[1] * fwd.o)),
        "associated": lambda fwd, p, dp, do: p * (dp - _sum(do[1] * fwd.o32)),
        "matched": lambda fwd, p, dp, do: p * (dp - _sum(p * dp)),
        "renormalized": lambda fwd, p, dp, do: p * (dp - _sum(p * dp) / _sum(p)),
        "shifted": _shifted,
        "compensated": _compensated,
    }
)


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of a model that trains: how it attends, and who is told of its backward pass.

    Attributes:
        recipe: How.
        watch: Told of every backward pass.
        number: Which layer it is, for ``watch``.
    """

    recipe: Recipe
    watch: Watch
    number: int


class Attend(torch.autograd.Function):
    """``forward`` and ``backward`` as one operation that autograd meets."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, layer: Layer) -> Tensor:
        """O, (G, N, D)."""
        fwd = fused(forward, q)(layer.recipe, q, k, v)
        ctx.layer = layer
        ctx.backward_of = fused(backward, q)  # asked here: the backward runs in another thread
        kept = (fwd.q, fwd.k, fwd.v, fwd.v_in, fwd.e, fwd.e8, fwd.l, fwd.norm, fwd.o32, fwd.o)
        ctx.save_for_backward(*kept, k)
        return fwd.o

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """dQ, dK, dV."""
        *kept, k = ctx.saved_tensors
        fwd = Forward(*kept)
        layer = ctx.layer
        bwd = ctx.backward_of(layer.recipe, fwd, grads[0].contiguous())
        layer.watch.step(layer.number, k.detach(), fwd, bwd)
        return bwd.dq, bwd.dk, bwd.dv, None
