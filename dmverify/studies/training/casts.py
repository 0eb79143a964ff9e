"""FP8 casts of whole tensors, (G, N, M) to (G, N, M): codes times scales, as float32.

The scale of a block is amax / top with amax at least 2^-100, 1 where the block is 0; codes round to
nearest even and saturate. Torch's own cast serves here because |x / scale| stays in range.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor

from dmverify.studies.training.recipe import Recipe

LEAST_AMAX = 2.0**-100
TOPS = MappingProxyType({"e4m3": 448.0, "e5m2": 57344.0})
TYPES = MappingProxyType({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2})
GROUP, TILE, MX = 64, 64, 32
CHAIN = (8, 4, 2)  # keys of a tile's row: 8 j + 2 t + b; the error passes over j, then b
E4M3_BITS, LEAST_BINADE, EXPONENT_FIELD = 3, -6, 0x7F80_0000

# Block of rows and columns of each operand; 0 is the whole side. K^ has other blocks where the
# keys are contracted, as MX needs it: then the last pair.
BLOCKS: MappingProxyType[str, dict[str, tuple[int, int]]] = MappingProxyType(
    {
        "article": {
            "q": (128, 0), "k": (64, 0), "v": (64, 0), "do": (128, 0),
            "e": (1, GROUP), "p": (TILE, TILE), "ds": (TILE, TILE),
        },
        "head": dict.fromkeys(("q", "k", "v", "do", "e", "p", "ds"), (0, 0)),
        "mx": dict.fromkeys(("q", "k", "v", "do", "e", "p", "ds"), (1, MX)),
    }
)  # fmt: skip

Round = Callable[[Tensor], Tensor]


def round_to(form: str) -> Round:
    """Rounds to the nearest number of a format, ties to even, saturating."""
    top, dtype = TOPS[form], TYPES[form]
    return lambda x: x.clamp(-top, top).to(dtype).float()


def stochastic(x: Tensor) -> Tensor:
    """Rounds to E4M3 up or down with the probabilities that keep the mean."""
    return grid(x, lambda units: torch.floor(units + torch.rand_like(units)))


def grid(x: Tensor, rule: Round) -> Tensor:
    """Applies a rule to x in units of its E4M3 binade."""
    binade = (x.abs().contiguous().view(torch.int32) & EXPONENT_FIELD).view(torch.float32)
    unit = binade.clamp(min=2.0**LEAST_BINADE) * 2.0**-E4M3_BITS
    return (rule(x / unit) * unit).clamp(-TOPS["e4m3"], TOPS["e4m3"])


def blocked(x: Tensor, rows: int, columns: int) -> Tensor:
    """(G, N, M) as (G, N / rows, rows, M / columns, columns); 0 takes the whole side."""
    g, n, m = x.shape
    rows, columns = min(rows or n, n), min(columns or m, m)
    return x.reshape(g, n // rows, rows, m // columns, columns)


def scales(amax: Tensor, top: float, power_of_two: bool) -> Tensor:
    """The scale of every block, from its largest magnitude."""
    scale = amax.clamp(min=LEAST_AMAX) / top
    if power_of_two:
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    return scale.where(amax > 0, 1.0)


def cast(x: Tensor, recipe: Recipe, site: str, *, turned: bool = False) -> Tensor:
    """Casts one operand by the recipe's blocks.

    Args:
        x: (G, N, M).
        recipe: Says blocks, and for dS format and rounding.
        site: A key of ``BLOCKS``.
        turned: The rows are what is contracted; MX then blocks down the columns.
    """
    rows, columns = BLOCKS[recipe.blocks][site]
    if turned and recipe.blocks == "mx":
        rows, columns = columns, rows
    form, how = (recipe.ds_format, recipe.ds_cast) if site == "ds" else ("e4m3", "nearest")
    if how == "none":
        return x
    tiles = blocked(x, rows, columns)
    scale = scales(tiles.abs().amax((2, 4), keepdim=True), TOPS[form], recipe.blocks == "mx")
    ways: dict[str, Round] = {"zero-sum": zero_sum, "stochastic": stochastic}
    return (ways.get(how, round_to(form))(tiles / scale) * scale).reshape(x.shape)


def zero_sum(tiles: Tensor) -> Tensor:
    """Rounds with the error of each element carried on along chains of 16 keys of a tile's row."""
    links = tiles.reshape(*tiles.shape[:-1], -1, *CHAIN)
    carry = torch.zeros_like(links[..., 0, :, 0])
    codes = torch.empty_like(links)
    nearest = round_to("e4m3")
    for j in range(CHAIN[0]):
        for b in range(CHAIN[2]):
            wanted = links[..., j, :, b] + carry
            codes[..., j, :, b] = nearest(wanted)
            # A masked key is 0 and hands the carry on.
            codes[..., j, :, b].masked_fill_(links[..., j, :, b] == 0, 0.0)
            carry = wanted - codes[..., j, :, b]
    return codes.reshape(tiles.shape)


def max_shift(e: Tensor) -> Tensor:
    """Casts exponentials (at most 1) with the scale 2^-8 for every row."""
    return round_to("e4m3")(e * 256.0) / 256.0
