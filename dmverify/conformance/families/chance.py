"""Problems by chance: sizes, mask, scale and values all come from the seed.

The other families target faults that somebody thought of; this one asks what nobody chose. It is of
no level: its cases were answered once by an H200 and are replayed (``recordings``). A variant names
the class of values, or the operand that holds a NaN or an infinity, so an id reads
``random/tiny@17``; fields in an id replace drawn ones.

| drawn | from |
|---|---|
| head_dim | 64, 128, 256 |
| batch; key heads; query heads a key head | 1 to 3; 1 to 3; 1 to 8, 12, 16 |
| lengths | 1 to 64; whole tiles less one, exact, or one more; up to the size that ``MOST`` leaves |
| mask, softmax scale | causal three times in four; own, negative or 0 two times in five |

Sizes and powers of two are chosen so that no product or sum overflows. Not covered: strides, and
lengths beyond some 320.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Family, Variant
from dmverify.conformance.families.tensors import NAMES, as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

TILE = 64
MOST = 1 << 16  # scores of all heads, about
BATCHES, KEY_HEADS = (1, 1, 1, 2, 3), (1, 1, 2, 3)
GROUPS = (1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 12, 16)
HEAD_DIMS = (64, 64, 128, 128, 256)
DEFAULT_SCALE, ZERO_SCALE = 0.5, 0.58  # up to here no scale of its own, then 0
VALUES = (np.nan, np.inf, -np.inf)

T = TypeVar("T")
Tensors = dict[str, F64]
Class = Callable[[Draws, Tensors], None]


def sizes(draws: Draws) -> Mapping[str, Any]:
    """The problem's fields that a seed draws."""
    u = iter(draws.uniform("problem", (16,)).tolist())

    def pick(words: Sequence[T]) -> T:
        return words[int(next(u) * len(words))]

    batch, kv_heads, group = pick(BATCHES), pick(KEY_HEADS), pick(GROUPS)
    longest = 64 + math.isqrt(MOST // (batch * kv_heads * group))
    fields: dict[str, Any] = {
        "batch": batch,
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "queries": _length(next(u), next(u), longest),
        "keys": _length(next(u), next(u), longest),
        "head_dim": pick(HEAD_DIMS),
        "causal": next(u) < 0.75,
        "softmax_scale": _scale(next(u), next(u), next(u)),
    }
    if next(u) < 0.25:
        fields["keys"] = fields["queries"]
    return {name: value for name, value in fields.items() if value is not None}


def _scale(kind: float, u: float, v: float) -> float | None:
    """A softmax scale: None (the default), 0, or a float32 of either sign from 2^-6 to 1."""
    if kind < DEFAULT_SCALE:
        return None
    if kind < ZERO_SCALE:
        return 0.0
    size = float(np.float32(math.ldexp(1.0 + u, -1 - int(v * 6))))
    return size if int(v * 997) % 2 else -size


def _length(kind: float, u: float, longest: int) -> int:
    """A short one, one beside whole tiles, or any."""
    if kind < 0.2:
        return 1 + int(u * TILE)
    if kind < 0.5:
        tiles = 1 + int(u * (longest // TILE))
        return tiles * TILE - 1 + int(u * 997) % 3
    return 1 + int(u * longest)


def by_chance(
    draws: Draws, problem: Problem, *, values: str = "gaussian", special: str = ""
) -> Inputs:
    """Values of a class, and in one operand up to three special numbers.

    Args:
        draws: Random numbers.
        problem: From ``sizes``.
        values: A key of ``CLASSES``.
        special: The operand, or empty for none.
    """
    tensors = gaussian(draws, problem)
    CLASSES[values](draws, tensors)
    if special:
        _spoil(draws, tensors[special])
    return as_inputs(tensors)


def _spoil(draws: Draws, x: F64) -> None:
    """One special value, in up to three tokens: the first, the last, any."""
    batch, tokens, heads, channels = x.shape
    u = draws.uniform("special", (4, 5))
    value = VALUES[int(u[3, 0] * len(VALUES))]
    for i in range(1 + int(u[3, 1] * 1.5) + int(u[3, 2] * 1.2)):
        token = (0, tokens - 1, int(u[i, 1] * tokens))[int(u[i, 0] * 3)]
        x[int(u[i, 2] * batch), token, int(u[i, 3] * heads), int(u[i, 4] * channels)] = value


def _powers(draws: Draws, stream: str, shape: tuple[int, ...], low: int, high: int) -> F64:
    """Powers of two with exponents from low to high - 1."""
    exponents = draws.integers(stream, shape, low=low, high=high)
    powers: F64 = np.ldexp(1.0, exponents.astype(np.int64))
    return powers


def _each(low: int, high: int) -> Class:
    """Every operand times a power of two of its own."""

    def change(draws: Draws, tensors: Tensors) -> None:
        for name in NAMES:
            tensors[name] *= _powers(draws, f"{name} power", (1,), low, high)

    return change


def _gaussian(draws: Draws, tensors: Tensors) -> None:
    """Leaves the standard normal numbers as they are."""


def _offset(draws: Draws, tensors: Tensors) -> None:
    for name in ("k", "v"):
        shape = (1, 1, *tensors[name].shape[2:])
        tensors[name] += 4.0 * draws.normal(f"{name} offset", shape)


def _outliers(draws: Draws, tensors: Tensors) -> None:
    for name in NAMES:
        rare = draws.uniform(f"{name} rare", tensors[name].shape) < 1 / 64
        tensors[name] *= np.where(rare, _powers(draws, f"{name} gain", (1,), 3, 10), 1.0)


def _large(draws: Draws, tensors: Tensors) -> None:
    for name, most in (("q", 8), ("k", 8), ("v", 48), ("do", 48)):
        tensors[name] *= _powers(draws, f"{name} power", (1,), most // 2, most)


def _sparse(draws: Draws, tensors: Tensors) -> None:
    for name in NAMES:
        tensors[name] *= draws.uniform(f"{name} kept", tensors[name].shape) < 1 / 8  # -0 stays -0


def _integers(draws: Draws, tensors: Tensors) -> None:
    for name in NAMES:
        tensors[name] = draws.integers(f"{name} whole", tensors[name].shape, low=-3, high=4)


def _positive(draws: Draws, tensors: Tensors) -> None:
    for name in ("v", "do"):
        tensors[name] = np.abs(tensors[name])


def _tokens(draws: Draws, tensors: Tensors) -> None:
    for name in NAMES:
        shape = (*tensors[name].shape[:-1], 1)
        reach = 4 if name in ("q", "k") else 12
        tensors[name] *= _powers(draws, f"{name} token", shape, -12, reach)


def _repeated(draws: Draws, tensors: Tensors) -> None:
    """Every third key is the one before it: equal logits, some of them the largest."""
    keys = tensors["k"].shape[1]
    source = np.arange(keys) - (np.arange(keys) % 3 == 2)
    tensors["k"], tensors["v"] = tensors["k"][:, source], tensors["v"][:, source]


def _references(draws: Draws, tensors: Tensors) -> None:
    """Tiles whose base-2 logits are -26, 7, 9 and 10 times scale / ln 2, in 256 keys.

    With a scale just below ln 2 the second tile passes the lazy reference by a little less than 32,
    which must then stay. Channel 0 has the levels; channels 1 of q and 2 of k fix the block scales
    at 2^-9 and 1, and the levels' sum is 0, so that centring leaves them.
    """
    tensors["q"][...] = 0.0
    tensors["q"][..., 0], tensors["q"][..., 1] = 0.5, 0.875
    token = np.arange(tensors["k"].shape[1])
    tensors["k"][...] = 0.0
    tensors["k"][..., 0] = np.array([-52.0, 14.0, 18.0, 20.0])[token // TILE % 4][None, :, None]
    tensors["k"][..., 2] = np.where(token % 2, 448.0, -448.0)[None, :, None]


def _norms(draws: Draws, tensors: Tensors) -> None:
    """Rows of v and dO whose norms are powers of two, and a delta of exactly 0 without a mask.

    The bound that chooses the power of two of dS is then a power of two but for the slack of its
    norms. Elements are 64 in either sign, so that a row of 64 has norm 512; one row of a block has
    a single 448, which fixes the scale at 1. A key and its neighbour are equal with opposite v, so
    that delta cancels in every order that adds neighbours last.
    """
    for name, block in (("v", TILE), ("do", 2 * TILE)):
        x = tensors[name]
        x[...] = np.where(x < 0, -64.0, 64.0)
        x[..., TILE:] = 0.0
        x[:, ::block] = 0.0
        x[:, ::block, :, 0] = 448.0
    whole = tensors["k"].shape[1] // 2 * 2
    tensors["k"][:, 1:whole:2] = tensors["k"][:, 0:whole:2]
    tensors["v"][:, 1:whole:2] = -tensors["v"][:, 0:whole:2]
    tensors["q"] *= 4.0


CLASSES: Mapping[str, Class] = MappingProxyType(
    {
        "gaussian": _gaussian,
        "wide": _each(-2, 4),
        "offset": _offset,
        "outliers": _outliers,
        "tiny": _each(-126, -40),
        "subnormal": _each(-134, -122),
        "large": _large,
        "sparse": _sparse,
        "integers": _integers,
        "positive": _positive,
        "token-scales": _tokens,
        "repeated": _repeated,
        "references": _references,
        "norms": _norms,
    }
)
"""What a class does to standard normal tensors."""

VARIANTS = {
    **{name: Variant({"values": name}) for name in CLASSES},
    **{f"{name}-special": Variant({"special": name}, flags=("nonfinite",)) for name in NAMES},
}

RANDOM = Family(
    "random",
    "problem",
    "what nobody thought of: sizes, masks, scales and values by chance",
    (),
    Problem(batch=1, heads=1, kv_heads=1, queries=1, keys=1, head_dim=64),
    VARIANTS,
    by_chance,
    sizes,
)
"""In no level and in no list of families: its cases are named by whoever asks them."""
