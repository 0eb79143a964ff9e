"""The simulation with one mistake each in what it computes, or in what it stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dmverify.conformance.adapter import Forward
from dmverify.conformance.kernels.simulation import ForwardState, Operands
from dmverify.lab.mutants.wrong import Wrong
from dmverify.spec.case import F32, Case, Inputs, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem

TILE = 64
LOG2_E = 1.4426950408889634
# Twice what the contract leaves open where one exponential is seen: in a sum of 64 terms, and of 2.
OFF_TILE, OFF_PAIR = 8.6e-6, 1.1e-6
# 2^f on [0, 1) at Chebyshev's points: relative errors up to 1.0e-4 and, to five decimals, 1.0e-5.
CUBIC = (0.9999003, 0.6963248, 0.2246932, 0.0789673)
QUARTIC = (1.0, 0.69297, 0.2416, 0.05174, 0.01367)


class Mapped(Wrong):
    """Every stored tensor goes through a function."""

    def __init__(self, name: str, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__(name)
        self._change = change

    def _store(self, x: Tensor) -> Tensor:
        return super()._store(self._change(x))


class RotatedHeads(Wrong):
    """O of the next head."""

    def _forward(self, contract: Contract, problem: Problem, ops: Operands) -> ForwardState:
        state = super()._forward(contract, problem, ops)
        return replace(state, o=state.o.roll(1, dims=1))


class DroppedTile(Wrong):
    """The last tile of keys does not reach O."""

    def _cast_weights(self, e: Tensor, group: int) -> Tensor:
        cut = super()._cast_weights(e, group).clone()
        cut[..., (e.shape[-1] - 1) // TILE * TILE :] = 0
        return cut


class TopLeft(Wrong):
    """Query i sees key j when j <= i."""

    def _mask(self, problem: Problem) -> Tensor:
        return torch.ones(problem.queries, problem.keys, dtype=torch.bool).tril()


class ModuloHeads(Wrong):
    """Query head h reads key head h mod Hkv."""

    def _to_query_heads(self, x: Tensor, group: int) -> Tensor:
        return x.repeat(1, group, 1, 1)


class Base2(Wrong):
    """LSE in base 2."""

    def _forward(self, contract: Contract, problem: Problem, ops: Operands) -> ForwardState:
        state = super()._forward(contract, problem, ops)
        return replace(state, lse=state.lse * LOG2_E)


class Stale(Wrong):
    """The shortcut delta whatever the contract says."""

    def _delta(self, mode: str, ops: Operands, fwd: ForwardState, dp: Tensor) -> Tensor:
        return super()._delta("stale", ops, fwd, dp)


class UncentredDq(Wrong):
    """The mean that K lost comes back in dQ."""

    def _dq(self, ds8: Tensor, ops: Operands, scale: float) -> Tensor:
        return super()._dq(ds8, replace(ops, k8=ops.k8 + ops.k_mean), scale)


class ScaleTwice(Wrong):
    """dK is scaled twice."""

    def _dk(self, ds8: Tensor, ops: Operands, scale: float) -> Tensor:
        return super()._dk(ds8, ops, scale * scale)


class ScaleMissing(Wrong):
    """dQ is not scaled."""

    def _dq(self, ds8: Tensor, ops: Operands, scale: float) -> Tensor:
        return super()._dq(ds8, ops, 1.0)


class NeighbourScale(Wrong):
    """Codes of a dS tile are decoded with the scale of the tile on its right."""

    def _cast_ds(self, ds: Tensor, tile: int) -> Tensor:
        codes = super()._cast_ds(ds, tile)
        peaks = (
            torch.nn.functional.max_pool2d(ds.abs(), tile, ceil_mode=True)
            .repeat_interleave(tile, -1)
            .repeat_interleave(tile, -2)
        )
        peaks = peaks[..., : ds.shape[-2], : ds.shape[-1]]
        factor = peaks.roll(-tile, -1) / peaks
        return codes * factor.nan_to_num(1.0, 1.0, 1.0)


class PoorExp(Wrong):
    """Another exponential, in tiles of all their keys or everywhere."""

    def __init__(self, name: str, exp: Callable[[Tensor], Tensor], *, everywhere: bool) -> None:
        super().__init__(name)
        self._poor, self._everywhere = exp, everywhere

    def _exp(self, x: Tensor) -> Tensor:
        full = x.shape[-1] if self._everywhere else x.shape[-1] // TILE * TILE
        head, tail = x[..., :full], x[..., full:]
        return torch.cat([self._poor(head), super()._exp(tail)], -1)


def exp_polynomial(*coefficients: float) -> Callable[[Tensor], Tensor]:
    """exp(x) as 2^n p(f), n + f = x log2 e and f in [0, 1); the coefficients of p ascend."""

    def exp(x: Tensor) -> Tensor:
        y = (x.double() * LOG2_E).clamp(min=-200.0)
        whole = y.floor()
        value = torch.zeros_like(y)
        for coefficient in reversed(coefficients):
            value = value * (y - whole) + coefficient
        return (value * torch.exp2(whole)).float()

    return exp


def exp_off(error: float) -> Callable[[Tensor], Tensor]:
    """exp(x) times 1 + error for x < 0."""
    return lambda x: torch.exp(x) * torch.where(x < 0, 1.0 + error, 1.0)


class SwallowedNan(Wrong):
    """NaN and infinity become numbers on the way in."""

    def _inputs(self, case: Case) -> Inputs:
        return Inputs(**{name: np.where(np.isfinite(x), x, 0) for name, x in case.inputs.items()})


class DeadNan(Wrong):
    """0 / 0 on dead rows."""

    def _store(self, x: Tensor) -> Tensor:
        stored = super()._store(x)
        dead = (stored == 0).all(-1, keepdim=True)
        return stored.masked_fill(dead, torch.nan)


class WideOutput(Wrong):
    """O keeps its float32 digits."""

    def backward(self, case: Case) -> Outputs:
        """The unstored O in the outputs."""
        outputs = super().backward(case)
        o32: F32 = self.internals(case).o32.swapaxes(1, 2).astype(np.float32)
        return replace(outputs, o=o32)


class Overwriting(Wrong):
    """Writes to what it was given."""

    def forward(self, case: Case) -> Forward:
        """Attention on the zeros that it wrote."""
        case.inputs.q[...] = 0
        return super().forward(case)


class Forgetful(Wrong):
    """Flips the last bit of one element of O where only the forward is asked for."""

    def forward(self, case: Case) -> Forward:
        """Returns O with a bit that `backward` does not give."""
        answer = super().forward(case)
        if answer.o.size:
            answer.o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(0x10000)
        return answer


zeros = Mapped("zeros", torch.zeros_like)
negated = Mapped("negated", torch.neg)
doubled = Mapped("doubled", lambda x: 2 * x)
exp_cubic = PoorExp("exp-cubic", exp_polynomial(*CUBIC), everywhere=False)
exp_quartic = PoorExp("exp-quartic", exp_polynomial(*QUARTIC), everywhere=False)
exp_off_tile = PoorExp("exp-off-tile", exp_off(OFF_TILE), everywhere=False)
exp_off_pair = PoorExp("exp-off-pair", exp_off(OFF_PAIR), everywhere=True)

MUTATIONS: dict[str, Callable[[], Wrong]] = {
    "zeros": lambda: zeros,
    "negated": lambda: negated,
    "doubled": lambda: doubled,
    "rotated-heads": RotatedHeads,
    "promotion-dropped-on-last": DroppedTile,
    "mask-top-left": TopLeft,
    "gqa-modulo": ModuloHeads,
    "lse-base-2": Base2,
    "delta-stale": Stale,
    "delta-stale-row-sum": Stale,
    "uncentred-dq": UncentredDq,
    "dk-scale-twice": ScaleTwice,
    "dq-scale-missing": ScaleMissing,
    "neighbour-tile-scale": NeighbourScale,
    "exp-cubic": lambda: exp_cubic,
    "exp-quartic": lambda: exp_quartic,
    "exp-off-tile": lambda: exp_off_tile,
    "exp-off-pair": lambda: exp_off_pair,
    "nan-swallowed": SwallowedNan,
    "dead-rows-nan": DeadNan,
    "wide-output": WideOutput,
    "unrepeatable": Forgetful,
    "overwriting": Overwriting,
}
"""By the mutant's id."""
