"""The float32 simulation in every delta mode and cast, so that all are searched alike and fast.

Beside what ``Simulation`` serves: the associated delta, O over the sum of the rounded codes, and
the zero-sum cast, whose errors go on to the next key of a chain (``spec.attention.casts``).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from dmverify.conformance.adapter import Support, Supported
from dmverify.conformance.kernels.simulation import (
    E4M3_MAX,
    BackwardState,
    ForwardState,
    Operands,
    Simulation,
    to_e4m3,
)
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.problem import Problem

CHOSEN = ("delta", "ds_cast", "normaliser")
STEPS, LANES, PARITIES = 8, 4, 2  # key 8 J + 2 t + b: step J, lane t, parity b


class EveryMode(Simulation):
    """One contract at a time; what a step needs of it is set before the steps run."""

    _zero_sum: Tensor | None = None  # who sees whom, (Nq, Nk), where the cast carries errors

    def supports(self, case: Case) -> Support:
        """The contract article with any delta, cast and normaliser."""
        contract, article = get_contract(case.contract), get_contract("article")
        chosen = {name: getattr(contract, name) for name in CHOSEN}
        same = contract == replace(article, **chosen)
        return Supported() if same else super().supports(case)

    def _forward(self, contract: Contract, problem: Problem, ops: Operands) -> ForwardState:
        fwd = super()._forward(contract, problem, ops)
        if contract.normaliser == "unrounded":
            return fwd
        o32 = fwd.e8 @ ops.v8 / self._code_sum(ops, fwd)
        return replace(fwd, o32=o32, o=self._store(o32))

    def _code_sum(self, ops: Operands, fwd: ForwardState) -> Tensor:
        live = ops.seen.any(-1)[:, None]
        return self._row_sum(fwd.e8).where(live, torch.ones(()))

    def _backward(
        self, contract: Contract, problem: Problem, ops: Operands, fwd: ForwardState
    ) -> BackwardState:
        self._zero_sum = ops.seen if contract.ds_cast == "zero-sum" else None
        if contract.delta == "associated":  # P is what the forward multiplied V with
            fwd = replace(fwd, e=fwd.e8, l=self._code_sum(ops, fwd))
        return super()._backward(contract, problem, ops, fwd)

    def _delta(self, mode: str, ops: Operands, fwd: ForwardState, dp: Tensor) -> Tensor:
        if mode == "associated":
            return (ops.do8 * fwd.o32).sum(-1, keepdim=True)
        return super()._delta(mode, ops, fwd, dp)

    def _cast_ds(self, ds: Tensor, tile: int) -> Tensor:
        if self._zero_sum is None:
            return super()._cast_ds(ds, tile)
        return carried(ds, self._zero_sum, tile)


def carried(ds: Tensor, seen: Tensor, tile: int) -> Tensor:
    """The zero-sum cast of dS (B, H, N, M), dequantised; keys that nobody sees pass errors on."""
    n, m = ds.shape[-2:]
    margins = (0, -m % tile, 0, -n % tile)
    padded, seen = pad(ds, margins), pad(seen, margins)
    batch, heads, height, width = padded.shape
    tiles = padded.reshape(batch, heads, height // tile, tile, width // tile, tile)
    amax = tiles.abs().amax((-3, -1), keepdim=True)
    scale = torch.where(amax == 0, 1.0, amax / amax.new_full((), E4M3_MAX))
    chain = (STEPS, LANES, PARITIES)
    chained = (tiles / scale).reshape(*tiles.shape[:-1], *chain)
    live_keys = seen.reshape(height // tile, tile, width // tile, *chain)
    codes, carry = torch.zeros_like(chained), torch.zeros_like(chained[..., 0, :, 0])
    for step in range(STEPS):
        for parity in range(PARITIES):
            live = live_keys[..., step, :, parity]
            total = chained[..., step, :, parity] + carry
            code = torch.where(live, to_e4m3(total.clamp(-E4M3_MAX, E4M3_MAX)), 0.0)
            carry = torch.where(live, total - code, carry)
            codes[..., step, :, parity] = code
    back = codes.flatten(-3) * scale
    return back.reshape(padded.shape)[..., :n, :m]
