"""One pass of a recipe over given heads, beside float64 attention on the same BF16 inputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dmverify.spec.case import Inputs
from dmverify.studies.rounding import significant
from dmverify.studies.training.attention import Backward, Forward, backward, forward
from dmverify.studies.training.recipe import EXACT, Recipe
from dmverify.studies.training.watch import column_shares, ratio


def of_inputs(inputs: Inputs) -> tuple[Tensor, ...]:
    """q, k, v, dO of a problem as (B H, N, D) float32; one key head a query head."""
    return tuple(torch.from_numpy(x.swapaxes(1, 2).copy()).flatten(0, 1) for _, x in inputs.items())


def truth(tensors: tuple[Tensor, ...]) -> tuple[Forward, Backward]:
    """Float64 attention."""
    q, k, v, do = (x.double() for x in tensors)
    fwd = forward(EXACT, q, k, v)
    return fwd, backward(EXACT, fwd, do)


def measure(
    recipe: Recipe, tensors: tuple[Tensor, ...], exact: tuple[Forward, Backward]
) -> dict[str, float | None]:
    """Residuals before and after the cast, column sums, relative errors (Frobenius)."""
    q, k, v, do = tensors
    fwd = forward(recipe, q, k, v)
    return measures(fwd, backward(recipe, fwd, do), exact)


def measures(
    fwd: Forward, bwd: Backward, exact: tuple[Forward, Backward]
) -> dict[str, float | None]:
    """The measures of a pass that was made."""
    columns = column_shares(torch.bmm(bwd.ds8.mT, fwd.q))
    return {
        "residual": _median(ratio(bwd.ds)),
        "residual_cast": _median(ratio(bwd.ds8)),
        "column_cast": _median(columns),
        "o_error": _distance(fwd.o, exact[0].o),
        "dq_error": _distance(bwd.dq, exact[1].dq),
        "dk_error": _distance(bwd.dk, exact[1].dk),
        "dv_error": _distance(bwd.dv, exact[1].dv),
    }


def _median(x: Tensor) -> float | None:
    return significant(x.double().nanquantile(0.5))


def _distance(got: Tensor, want: Tensor) -> float | None:
    return significant((got.double() - want).norm() / want.norm())


def of_call(inputs: Inputs, recipes: Mapping[str, Recipe]) -> dict[str, dict[str, float | None]]:
    """``measure`` of every recipe on one call, and the largest residual, and the median size."""
    tensors = of_inputs(inputs)
    exact = truth(tensors)
    found = {}
    for name, recipe in recipes.items():
        fwd = forward(recipe, *tensors[:3])
        bwd = backward(recipe, fwd, tensors[3])
        found[name] = measures(fwd, bwd, exact) | {
            "residual_max": significant(ratio(bwd.ds).nan_to_num().max()),
            "size": significant(bwd.ds.abs().sum(-1).median()),
        }
    return found
