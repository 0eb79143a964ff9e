"""A training kernel with blocks of its own, and two versions of it that are wrong.

Scales belong to 128 rows of Q, 32 of K and V and 64 of dO; P is cast in groups of 128 keys, dS and
the backward's P in tiles of 32 x 32; keys are not centred. ``block_training.toml`` says so::

    PYTHONPATH=examples dmverify verify block_training:Training --case 'lengths/n6*'
    PYTHONPATH=examples dmverify verify block_training:NeighbourScale --case 'distinct-scales/*'
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy_attention import bf16, e4m3

from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.conformance.contracts import resolve_contract
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance

CONTRACT = resolve_contract(str(Path(__file__).with_suffix(".toml"))).name


def cast(x: np.ndarray, rows: int, columns: int, neighbour: int = 0) -> np.ndarray:
    """Tiles of the last two extents in E4M3 and back, by the scale of the tile so many above."""
    *_, n, m = x.shape
    spare = [(0, 0)] * (x.ndim - 2) + [(0, -n % rows), (0, -m % columns)]
    whole = np.pad(x, spare)
    down, across = whole.shape[-2] // rows, whole.shape[-1] // columns
    tiles = whole.reshape(*x.shape[:-2], down, rows, across, columns)
    amax = np.abs(tiles).max((-3, -1), keepdims=True, initial=0)
    scale = np.where(amax == 0, np.float32(1), amax / np.float32(448))
    back = e4m3(tiles / scale) * np.roll(scale, neighbour, -4)
    return back.reshape(whole.shape)[..., :n, :m]


def heads_first(x: np.ndarray, repeat: int = 1) -> np.ndarray:
    return x.swapaxes(1, 2).repeat(repeat, 1)


def per_key_head(x: np.ndarray, group: int) -> np.ndarray:
    return x.reshape(x.shape[0], x.shape[1] // group, group, *x.shape[2:]).sum(2)


class Training:
    """Forward and backward, all heads at once."""

    info = Provenance(kernel="block-training")
    contract = CONTRACT
    neighbour, factor = 0, np.float32(1)

    def supports(self, case: Case) -> Supported | Unsupported:
        return Supported() if case.contract == CONTRACT else Unsupported(f"it does {CONTRACT}")

    def forward(self, case: Case) -> Forward:
        found = self.backward(case)
        return Forward(found.o, found.lse)

    def backward(self, case: Case) -> Outputs:
        with np.errstate(all="ignore"):
            return self.attend(case)

    def attend(self, case: Case) -> Outputs:
        problem, given = case.problem, case.inputs
        width, scale = problem.head_dim, np.float32(problem.scale)
        q8 = cast(heads_first(given.q), 128, width)
        k8 = cast(heads_first(given.k, problem.group), 32, width)
        v8 = cast(heads_first(given.v, problem.group), 32, width, self.neighbour)
        do8 = cast(heads_first(given.do), 64, width)
        s = np.where(problem.mask(), q8 @ k8.swapaxes(-1, -2) * scale, -np.inf)
        live = problem.mask().any(1)[:, None]
        peak = np.where(live, s.max(-1, initial=-np.inf, keepdims=True), np.float32(0))
        e = np.where(problem.mask(), np.exp(s - peak), np.float32(0))
        l = np.where(live, e.sum(-1, keepdims=True), np.float32(1))  # noqa: E741
        o = cast(e, 1, 128) @ v8 / l
        lse = np.where(live, peak + np.log(l), -np.inf)[..., 0]
        p, dp = e / l, do8 @ v8.swapaxes(-1, -2)
        delta = (p * dp).sum(-1, keepdims=True)
        ds8 = cast(p * (dp - delta), 32, 32)
        p8 = cast(p, 32, 32)
        dk = per_key_head(ds8.swapaxes(-1, -2) @ q8 * scale * self.factor, problem.group)
        dv = per_key_head(p8.swapaxes(-1, -2) @ do8, problem.group)
        wide = {"o": o, "dq": ds8 @ k8 * scale, "dk": dk, "dv": dv}
        stored = {name: bf16(x.swapaxes(1, 2)) for name, x in wide.items()}
        return Outputs(lse=lse.astype(np.float32), delta=delta[..., 0], **stored)


class NeighbourScale(Training):
    """Wrong: codes of V are multiplied by the scale of the block beside theirs."""

    neighbour = 1


class ScaleLost(Training):
    """Wrong: dK is not multiplied by the softmax scale."""

    def attend(self, case: Case) -> Outputs:
        self.factor = np.float32(1) / np.float32(case.problem.scale)
        return super().attend(case)
