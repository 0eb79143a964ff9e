"""Attention in a model that trains: in torch by a recipe, or by the bundled kernel on a card."""

from __future__ import annotations

from typing import cast as typed

from torch import Tensor

from dmverify.studies.training.attention import Attend
from dmverify.studies.training.on_card import attend_on_card
from dmverify.studies.training.recipe import Recipe
from dmverify.studies.training.watch import Watch


def attend(q: Tensor, k: Tensor, v: Tensor, recipe: Recipe, watch: Watch, layer: int) -> Tensor:
    """O of causal attention by a recipe, differentiable.

    Args:
        q: (G, N, D) float32; so are k, v and O.
        k: Keys.
        v: Values.
        recipe: How.
        watch: Told of every backward pass.
        layer: Which layer it is, for ``watch``.
    """
    if recipe.arithmetic != "kernel":
        return typed(Tensor, Attend.apply(q, k, v, recipe, watch, layer))  # type: ignore[no-untyped-call]
    return attend_on_card(q, k, v, recipe, watch, layer)
