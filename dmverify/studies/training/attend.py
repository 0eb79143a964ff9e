"""Attention in a model that trains: in torch by a recipe, or by the bundled kernel on a card."""

from __future__ import annotations

from typing import cast as typed

from torch import Tensor

from dmverify.studies.training.attention import Attend, Layer
from dmverify.studies.training.on_card import attend_on_card


def attend(q: Tensor, k: Tensor, v: Tensor, layer: Layer) -> Tensor:
    """O of causal attention by a layer's recipe, differentiable.

    Args:
        q: (G, N, D) float32; so are k, v and O.
        k: Keys.
        v: Values.
        layer: How it attends, and who is told of its backward pass.
    """
    if layer.recipe.arithmetic != "kernel":
        return typed(Tensor, Attend.apply(q, k, v, layer))  # type: ignore[no-untyped-call]
    return attend_on_card(q, k, v, layer)
