"""What is recorded while a model trains, a layer and seed.

| measure | definition |
|---|---|
| sign | |sum of c| / sum of |c| over the steps since the last probe, median over channels |
| residual, residual_cast | |row sum of dS| / sum |dS|, before and after the cast, row median |
| column, column_cast | |sum_j dK_jc| / sum_j |dK_jc|, median over channels, sequences and heads |
| k_mean | |mean over tokens of K| / |K| (Frobenius), median over sequences and heads |
| k_ratio | |mean of K| / |K - mean| |
| entropy | of a row's P in nats, median over rows; of the kernel, exact attention's on its Q, K |

c is the sum over sequences and keys of dK, a head and channel, at every step. Its sign share is 1
where the sign never changes and about 0.1 over 100 steps of random signs. The other measures are
taken at probes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dmverify.studies.training.attention import Backward, Forward

MEASURES = (
    "residual", "residual_cast", "column", "column_cast", "k_mean", "k_ratio", "entropy",
)  # fmt: skip


@dataclass
class Watch:
    """Collects; tensors stay on the device until they are read.

    Attributes:
        seeds: S, the leading part of G.
        heads: Heads of a layer, the trailing part of G.
        moving: Sums over steps a layer, (2, S, H, D): of c and of |c|.
        probes: Measures a layer, (S,) each, of the last step if ``probing``.
        kept: Q^, K as it came in, P and dS before its cast, a layer, of that step.
        probing: Whether the next step is measured closely.
    """

    seeds: int
    heads: int
    moving: dict[int, Tensor] = field(default_factory=dict)
    probes: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    kept: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=dict)
    probing: bool = False

    def step(self, layer: int, k: Tensor, fwd: Forward, bwd: Backward) -> None:
        """One backward pass of a simulated layer; k as it came in, (G, N, D)."""
        self.keys(layer, bwd.dk)
        if self.probing:
            self.probes[layer] = self._rows(fwd, bwd) | self.mean_of_keys(k)
            self.kept[layer] = (fwd.q, k, bwd.p, bwd.ds)

    def keys(self, layer: int, dk: Tensor) -> None:
        """Adds the column sums of dK, (G, N, D), to the window."""
        c = dk.sum(-2).reshape(self.seeds, -1, self.heads, dk.shape[-1]).sum(1)
        pair = torch.stack((c, c.abs()))
        if layer in self.moving:
            self.moving[layer] += pair
        else:
            self.moving[layer] = pair.clone()

    def mean_of_keys(self, k: Tensor) -> dict[str, Tensor]:
        """How much of K its mean over the tokens is."""
        mean = k.mean(-2, keepdim=True)
        common = mean.norm(dim=(-2, -1)) * k.shape[-2] ** 0.5
        whole, rest = k.norm(dim=(-2, -1)), (k - mean).norm(dim=(-2, -1))
        return {"k_mean": self.median(common / whole), "k_ratio": self.median(common / rest)}

    def sign(self) -> list[list[float]]:
        """The sign consistency of every layer and seed, and a new window."""
        found = []
        for layer in sorted(self.moving):
            total, size = self.moving[layer]
            share = (total.abs() / size.clamp(min=1e-30)).flatten(1)
            found.append([float(x) for x in share.median(1).values])
            self.moving[layer].zero_()
        return found

    def _rows(self, fwd: Forward, bwd: Backward) -> dict[str, Tensor]:
        columns, cast_columns = (
            self.median(column_shares(torch.bmm(ds.mT, fwd.q))) for ds in (bwd.ds, bwd.ds8)
        )
        return {
            "residual": self.median(ratio(bwd.ds)),
            "residual_cast": self.median(ratio(bwd.ds8)),
            "column": columns,
            "column_cast": cast_columns,
            "entropy": self.median(entropy(bwd.p)),
        }

    def median(self, x: Tensor) -> Tensor:
        """Over everything but the seeds: (S,)."""
        return x.float().reshape(self.seeds, -1).nanmedian(1).values


def entropy(p: Tensor) -> Tensor:
    """Entropy of every row, in nats."""
    rows: Tensor = -torch.special.xlogy(p, p).sum(-1)
    return rows


def ratio(ds: Tensor) -> Tensor:
    """|row sum| / sum of magnitudes, in float64; NaN where a row is all 0."""
    wide = ds.double()
    return wide.sum(-1).abs() / wide.abs().sum(-1)


def column_shares(dk: Tensor) -> Tensor:
    """|sum over keys| / sum of magnitudes of dK's channels, in float64."""
    wide = dk.double()
    return wide.sum(-2).abs() / wide.abs().sum(-2).clamp(min=1e-300)
