"""Kernels that do not compute what they were asked, or do more than they say.

An honest kernel comes to each of these by mistake: it falls back to other code, keeps a buffer or a
cache, writes beside its tensors, declares what it does not serve. Each names the check that finds
it out on its case without comparing bits.

An answer that is *more* exact than the contract is wrong by it: the contract's roundings move O by
percents, while its interval is as wide as the orders of summation and one BF16 store. Where nothing
rounds (small integers) it is the same, and no bound can tell. Not covered: kernels that mean to
deceive the judge in whose process they run, and one that sleeps or crashes (see
``dmverify.conformance.process``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import (
    ForwardState,
    Operands,
    Simulation,
)
from dmverify.lab.mutants.wrong import Wrong
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

_ALLOCATE = np.empty


def unlucky() -> bool:
    """Whether fresh memory is filled; memory that holds a NaN by chance would not tell."""
    return np.empty is not _ALLOCATE


class ExactAttention(Wrong):
    """Forward in float64 on the inputs, stored in BF16; the backward is the simulation's."""

    def _forward(self, contract: Contract, problem: Problem, ops: Operands) -> ForwardState:
        state = super()._forward(contract, problem, ops)
        o32 = self._attend(problem, ops)
        return replace(state, o32=o32, o=self._store(o32))

    def _attend(self, problem: Problem, ops: Operands) -> Tensor:
        return self._exactly(problem, ops.q, ops.k8 + ops.k_mean, ops.v8)

    def _exactly(self, problem: Problem, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q.double() @ k.double().mT * problem.scale
        scores = scores.masked_fill(~self._mask(problem), -torch.inf)
        return (scores.softmax(-1).nan_to_num() @ v.double()).float()


class TorchAttention(ExactAttention):
    """Exact attention by torch's own operator."""

    def _attend(self, problem: Problem, ops: Operands) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            ops.q,
            ops.k8 + ops.k_mean,
            ops.v8,
            attn_mask=self._mask(problem),
            scale=problem.scale,
        )


class DequantisedAttention(ExactAttention):
    """Exact on what the casts left: only P's rounding is missing."""

    def _attend(self, problem: Problem, ops: Operands) -> Tensor:
        return self._exactly(problem, ops.q8, ops.k8, ops.v8)


class Cached(Wrong):
    """Answers with the last call's outputs where the shapes agree."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Problem, Outputs] | None = None

    def backward(self, case: Case) -> Outputs:
        """Computes only for a problem that it has not just met."""
        if self._last is None or self._last[0] != case.problem:
            self._last = case.problem, super().backward(case)
        return self._last[1]


class StrayWrite(Wrong):
    """Writes beside a tensor that it was given."""

    def forward(self, case: Case) -> Forward:
        """One element too far on both sides."""
        do = case.inputs.do
        floats = (ctypes.c_float * (do.size + 2)).from_address(do.ctypes.data - do.itemsize)
        floats[0] = floats[do.size + 1] = 1.0
        return super().forward(case)


class Aliasing(Wrong):
    """Returns memory that is the caller's."""

    def backward(self, case: Case) -> Outputs:
        """LSE, as right as ever, written over dO."""
        outputs = super().backward(case)
        lse: F32 = case.inputs.do.reshape(-1)[: outputs.lse.size].reshape(outputs.lse.shape)
        return replace(outputs, lse=lse)


class Late(Wrong):
    """One buffer for the O of every call."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: dict[tuple[int, ...], F32] = {}

    def _kept(self, o: F32) -> F32:
        buffer = self._buffers.setdefault(o.shape, np.empty_like(o))
        buffer[...] = o
        return buffer

    def backward(self, case: Case) -> Outputs:
        """Overwrites what it returned before."""
        outputs = super().backward(case)
        return replace(outputs, o=self._kept(outputs.o))


class Fickle(Wrong):
    """Answers one call otherwise than the next."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0

    def backward(self, case: Case) -> Outputs:
        """One of two neighbours for the first element of O."""
        outputs = super().backward(case)
        self._turn ^= 1
        o = outputs.o.copy()
        o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(self._turn << 16)
        return replace(outputs, o=o)


class StaleWrite(Wrong):
    """Keeps an input and writes to it in a later call, as a thread of its own could."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[F32] = []

    def backward(self, case: Case) -> Outputs:
        """A zero into the Q of the call before."""
        for q in self._kept[-1:]:
            q[...] = 0
        self._kept.append(case.inputs.q)
        return super().backward(case)


class EveryContract(Wrong):
    """Says yes to everything and computes the one thing it can."""

    def supports(self, case: Case) -> Support:
        """Always."""
        return Supported()

    def backward(self, case: Case) -> Outputs:
        """Answers by the article's contract, whatever was asked."""
        return super().backward(replace(case, contract="article"))


class Uninitialised(Wrong):
    """Does not write the last row of O."""

    def backward(self, case: Case) -> Outputs:
        """O in memory as the allocator gave it; right by luck while nobody looks."""
        outputs = super().backward(case)
        o = np.empty(outputs.o.shape, np.float32)
        o[:, :-1] = outputs.o[:, :-1]
        if not unlucky():
            o[:, -1:] = outputs.o[:, -1:]
        return replace(outputs, o=o)


class EasyOnly(Wrong):
    """Declines all that it could get wrong; no check tells, the count of served cases does."""

    def supports(self, case: Case) -> Support:
        """One query and one key, or less."""
        easy = case.problem.queries * case.problem.keys <= 1
        return super().supports(case) if easy else Unsupported("only what is easy")


class Specification(Emulator):
    """Returns the reference under another name."""

    is_specification = False

    @property
    def info(self) -> Provenance:
        """Describes itself as if it were a kernel."""
        return Provenance(kernel="specification")


MUTATIONS: dict[str, Callable[[], Simulation | Emulator]] = {
    "torch-attention": TorchAttention,
    "torch-attention-bounds": TorchAttention,
    "exact-attention": ExactAttention,
    "dequantised-attention": DequantisedAttention,
    "cached": Cached,
    "stray-write": StrayWrite,
    "aliasing": Aliasing,
    "late": Late,
    "fickle": Fickle,
    "stale-write": StaleWrite,
    "every-contract": EveryContract,
    "uninitialised": Uninitialised,
    "specification": Specification,
}
"""By the mutant's id. ``EasyOnly`` has none: no check tells, the count of served cases does."""
