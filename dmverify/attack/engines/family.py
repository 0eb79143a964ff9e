"""A family of inputs with 24 parameters, six for each tensor, over one draw of noise.

    x = spread (noise + offset * channels + alike * token + outlier * spike) |noise|^tail

channels, token and spike are drawn once for each round: channels is shared by V and dO and by Q and
K, as a stale delta needs offsets of V that dO sees, and large logits need Q along K. ``snap`` moves
every element towards the nearest tie of E4M3, where a rounding error is largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dmverify.attack.stack import NAMES, Stack
from dmverify.spec.problem import Problem

WORDS = ("spread", "offset", "alike", "outlier", "tail", "snap")
SIZE = len(WORDS) * len(NAMES)
STEP = 0.5  # of a parameter, at the start of a search
SHARED = {"q": "qk", "k": "qk", "v": "vdo", "do": "vdo"}


@dataclass(frozen=True, eq=False)
class Noise:
    """What a round draws once; by tensor, (N, H, D) and smaller."""

    elements: dict[str, Tensor]
    channels: dict[str, Tensor]
    tokens: dict[str, Tensor]
    spikes: dict[str, Tensor]


def draw(problem: Problem, rng: np.random.Generator) -> Noise:
    """The noise of a round."""
    shapes = {name: problem.shapes()[name][1:] for name in NAMES}
    pairs = {pair: _normal(rng, (problem.head_dim,)) for pair in dict.fromkeys(SHARED.values())}
    return Noise(
        {name: _normal(rng, shape) for name, shape in shapes.items()},
        {name: pairs[SHARED[name]] for name in NAMES},
        {name: _normal(rng, (1, *shape[1:])) for name, shape in shapes.items()},
        {name: _normal(rng, shape) * (_normal(rng, shape) > 2) for name, shape in shapes.items()},
    )


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def build(noise: Noise, parameters: npt.NDArray[np.float64]) -> Stack:
    """The candidates of some parameters, (C, ``SIZE``)."""
    table = torch.from_numpy(parameters.astype(np.float32)).reshape(-1, len(NAMES), len(WORDS))
    return Stack(*(_tensor(noise, name, table[:, i]) for i, name in enumerate(NAMES)))


def _tensor(noise: Noise, name: str, rows: Tensor) -> Tensor:
    spread, offset, alike, outlier, tail, snap = (x[:, None, None, None] for x in rows.T)
    z = noise.elements[name]
    x = z * z.abs().clamp_min(1e-3) ** tail.clamp(-0.9, 2)
    x = x + 2 * offset * noise.channels[name] + 2 * alike * noise.tokens[name]
    x = (x + 2 * outlier * noise.spikes[name]) * torch.exp2(spread.clamp(-4, 4))
    return _snapped(x, snap.clamp(0, 1))


def _snapped(x: Tensor, share: Tensor) -> Tensor:
    """Towards the odd multiples of a sixteenth of each binade, where E4M3 codes of scale 1 tie."""
    binade = torch.exp2(x.abs().clamp_min(1e-6).log2().floor())
    tie = (torch.floor(x / binade * 8) + 0.5) * binade / 8
    return x + share * (tie - x)
