"""Kernels that are right until something is used again: what the long cases are there to find.

Each is the simulation, bit for bit, on every smaller case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from dmverify.conformance.kernels.simulation import BackwardState, ForwardState, Operands
from dmverify.lab.mutants.numeric import TILE
from dmverify.lab.mutants.wrong import Wrong
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem

ROUND = 8 * TILE  # keys in a ring of eight stages
LAST_SAME = 1  # the last batch whose offset a stride of one batch still gets right
BLOCKS = 132  # persistent blocks: streaming multiprocessors of an H200


class StaleStage(Wrong):
    """The first tile of the second round is that of the first."""

    def _forward(self, contract: Contract, problem: Problem, ops: Operands) -> ForwardState:
        return super()._forward(contract, problem, replace(ops, v8=_one_round_late(ops.v8)))


class ThirdBatch(Wrong):
    """The batch offset stops growing."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        k8 = ops.k8.clone()
        k8[LAST_SAME + 1 :] = k8[LAST_SAME : LAST_SAME + 1]
        return replace(ops, k8=k8)


class Uncleared(Wrong):
    """The accumulator of dQ is not cleared between two tiles of one block."""

    def _backward(
        self, contract: Contract, problem: Problem, ops: Operands, fwd: ForwardState
    ) -> BackwardState:
        state = super()._backward(contract, problem, ops, fwd)
        pairs = state.dq.flatten(0, 1).clone()
        pairs[BLOCKS:] += pairs[: max(pairs.shape[0] - BLOCKS, 0)].clone()
        return replace(state, dq=self._store(pairs.reshape(state.dq.shape)))


def _one_round_late(v: Tensor) -> Tensor:
    late = v.clone()
    tile = late[..., ROUND : ROUND + TILE, :]
    tile.copy_(v[..., : tile.shape[-2], :])
    return late


MUTATIONS: dict[str, Callable[[], Wrong]] = {
    "stale-stage": StaleStage,
    "third-batch": ThirdBatch,
    "uncleared": Uncleared,
}
"""By the mutant's id."""
