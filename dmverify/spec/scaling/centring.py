"""Key centring: the mean over a head's tokens is subtracted from K before it is quantised.

Softmax does not see a vector added to every key, so centring changes no exact result; it takes an
offset out of the amax. Steps, float32 and rounded to nearest even:
1. mu = mean over the N tokens, per channel (0 if N = 0).
2. x = k - mu.

| rule | order of the mean's sum |
|---|---|
| none | mu is not formed |
| mean | not stated by its source: the exact sum, rounded once after the division |
| blocked-mean | below, every rounding stated |

blocked-mean: tokens in blocks of 128; inside a block eight lanes, lane g adding tokens g, g + 8,
g + 16, ... in that order to +0; then lanes are added in ascending order, starting with lane 0; then
blocks in ascending order to +0; the sum is divided by N (div.rn). Tokens beyond N add +0, which
changes no sum that started at +0. Eight lanes let eight rows of a tile be read at once.

Not covered: centring over a running or global mean; a mean over masked tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dmverify.errors import unknown_name
from dmverify.spec.formats.encode import checked_float32
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array, astype, namespace_of
from dmverify.spec.scaling.geometry import pad_rows

MEAN_BLOCK = 128
MEAN_LANES = 8


def token_mean(k: Array, rule: str) -> Array:
    """Return the mean over tokens that ``rule`` defines.

    Args:
        k: (..., N, D) float32.
        rule: ``none``, ``mean`` or ``blocked-mean``.

    Returns:
        (..., 1, D) float32; zeros for ``none`` and for N = 0.

    Raises:
        InputError: Another dtype.
        UnknownNameError: No rule of that name.
    """
    k = checked_float32(k)
    if rule not in _MEANS:
        raise unknown_name("centring rule", rule, _MEANS)
    if k.shape[-2] == 0:
        return namespace_of(k).zeros(
            (*k.shape[:-2], 1, k.shape[-1]), dtype=k.dtype, device=k.device
        )
    with np.errstate(invalid="ignore", over="ignore"):  # infinities propagate
        return _MEANS[rule](k)


@rests_on("centring-shift", "centring-gradient")
def centre(k: Array, rule: str) -> Array:
    """Return k minus its ``token_mean``: (..., N, D) float32.

    Args:
        k: (..., N, D) float32.
        rule: As for ``token_mean``; ``none`` returns ``k`` itself.

    Raises:
        InputError: Another dtype.
        UnknownNameError: No rule of that name.
    """
    mean = token_mean(k, rule)
    if rule == "none":
        return k
    with np.errstate(invalid="ignore", over="ignore"):
        return k - mean


def _no_mean(k: Array) -> Array:
    return namespace_of(k).zeros_like(k[..., :1, :])


def _rounded_once(k: Array) -> Array:
    # float64 holds sums of BF16 numbers exactly unless their exponents differ by more than 30.
    total = namespace_of(k).sum(astype(k, "float64"), axis=-2, keepdims=True)
    return astype(total / _count(total, k), "float32")


def _blocked(k: Array) -> Array:
    blocks = -(-k.shape[-2] // MEAN_BLOCK)
    padded = pad_rows(k, blocks * MEAN_BLOCK)
    turns = MEAN_BLOCK // MEAN_LANES
    tokens = padded.reshape(*k.shape[:-2], blocks, turns, MEAN_LANES, k.shape[-1])
    lanes = _add_in_order([tokens[..., turn, :, :] for turn in range(turns)])
    partial = _add_in_order([lanes[..., lane, :] for lane in range(MEAN_LANES)])
    total = _add_in_order([partial[..., block : block + 1, :] for block in range(blocks)])
    return total / _count(total, k)


def _count(total: Array, k: Array) -> Array:
    # An array, since torch turns a division by a Python number into a product with a reciprocal.
    return namespace_of(k).full_like(total, k.shape[-2])


def _add_in_order(terms: list[Array]) -> Array:
    total = terms[0] + 0.0  # -0 becomes +0: accumulators start at +0
    for term in terms[1:]:
        total = total + term
    return total


_MEANS: dict[str, Callable[[Array], Array]] = {
    "none": _no_mean,
    "mean": _rounded_once,
    "blocked-mean": _blocked,
}
