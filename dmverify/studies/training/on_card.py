"""Attention by the bundled kernel inside a model that trains: real FP8 on a Hopper GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmverify.kernel.api import dm_attn_func
from dmverify.studies.training.attention import Layer, forward
from dmverify.studies.training.recipe import EXACT, Recipe
from dmverify.studies.training.watch import column_shares, entropy


def attend_on_card(q: Tensor, k: Tensor, v: Tensor, layer: Layer) -> Tensor:
    """O of the bundled kernel, (G, N, D) float32; gradients in BF16 as it stores them."""
    heads, recipe = layer.watch.heads, layer.recipe
    seen = _Look.apply(k, q, layer)  # type: ignore[no-untyped-call]
    rows = [
        x.reshape(-1, heads, *x.shape[1:]).transpose(1, 2).bfloat16() for x in (q, seen, v)
    ]  # (B, N, H, D)
    words = _words(recipe)
    o = dm_attn_func(*rows, causal=True, mode=recipe.delta, ds_cast=recipe.ds_cast, **words)
    out: Tensor = o.float().transpose(1, 2).flatten(0, 1)
    return out


def _words(recipe: Recipe) -> dict[str, Any]:
    """The kernel's words for what is not its own default."""
    plain = Recipe("kernel", normaliser="codes")
    names = ("centre_k", "normaliser")
    return {
        name: getattr(recipe, name)
        for name in names
        if getattr(recipe, name) != getattr(plain, name)
    }


def entropy_of(q: Tensor, k: Tensor) -> Tensor:
    """Entropy of each row of exact attention on q and k, (G, N): the kernel does not show its P."""
    fwd = forward(EXACT, q, k, k)
    return entropy(fwd.e / fwd.l)


class _Look(torch.autograd.Function):
    """The identity on K; it sees dK."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, q: Tensor, layer: Layer) -> Tensor:
        """K itself."""
        ctx.layer = layer
        ctx.save_for_backward(k, q)
        return k.view_as(k)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """dK itself."""
        dk, layer, watch = grads[0], ctx.layer, ctx.layer.watch
        if layer.recipe.act == "project":
            dk = dk - dk.mean(-2, keepdim=True)
        watch.keys(layer.number, dk)
        if watch.probing:
            k, q = ctx.saved_tensors
            seen = {"column_cast": column_shares(dk), "entropy": entropy_of(q, k)}
            watch.probes[layer.number] = watch.mean_of_keys(k) | {
                name: watch.median(values) for name, values in seen.items()
            }
        return dk, None, None
