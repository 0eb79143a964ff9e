"""Kernels that lie: they do not compute what they were asked, or do more than they say.

Each names the check that finds it out, on its own case and without comparing bits. ``verify`` takes
them by name (``dmverify.lab.mutants.cheats:LIES``'s kernels are objects of this module).

| lie | what it does | what gives it away |
|---|---|---|
| torch-attention | torch's attention in float32 | torch is watched; O leaves its interval |
| exact-attention | the same by plain matrix products in float64 | O leaves its interval |
| dequantised-attention | exact on the dequantised operands: P is never rounded | O again |
| cached | the last call's answer where shapes agree | a question that follows another |
| by-name | right for ids that it knows, zeros otherwise | no kernel sees an id |
| all-nan | NaN everywhere | a number is due |
| stray-write | one element before and behind dO's memory | guard zones |
| aliasing | LSE is a view of an input | memory is compared |
| late | returns one buffer again and again | the first answer changes |
| fickle | the last bit of one O changes from call to call | asked twice |
| stale-write | writes to the inputs of the call before | they are compared again later |
| only-once | declines what it has served | asked twice |
| every-contract | claims to serve whatever it is asked | a contract that does not exist |
| uninitialised | leaves the last query's O as it was allocated | poisoned memory |
| middle | returns the middle of the judge's intervals | the reference is watched |
| specification | returns this project's reference | the reference is watched |
| (EasyOnly) | declines whatever is not trivial | the report counts what was served |

An answer that is *more* exact than the contract is wrong by it: the contract's roundings move O by
percents, while its interval is as wide as the orders of summation and one BF16 store. Where nothing
rounds (small integers) the lie is the truth, and no bound can tell. Not covered here: a kernel that
sleeps or crashes (see ``dmverify.conformance.process``), and one that recognises inputs by their
numbers, which only cases drawn with a fresh seed show.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace

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
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

CASE = "gaussian/spread-2@0"


_ALLOCATE = np.empty


def unlucky() -> bool:
    """Whether fresh memory is filled; memory that holds a NaN by chance would not tell."""
    return np.empty is not _ALLOCATE


class Liar(Simulation):
    """The simulation under another name."""

    @property
    def info(self) -> Provenance:
        """Named after the lie."""
        return replace(super().info, kernel=type(self).__name__.lower())


class ExactAttention(Liar):
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
    """The same by torch's own attention."""

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


class Cached(Liar):
    """Answers with the last call's outputs where the shapes agree."""

    def __init__(self) -> None:
        self._last: tuple[Problem, Outputs] | None = None

    def backward(self, case: Case) -> Outputs:
        """Computes only for a problem that it has not just met."""
        if self._last is None or self._last[0] != case.problem:
            self._last = case.problem, super().backward(case)
        return self._last[1]


class ByName(Liar):
    """Knows the answers to cases by their ids."""

    def backward(self, case: Case) -> Outputs:
        """Zeros for what it does not know."""
        outputs = super().backward(case)
        if case.id.partition("@")[2] == "0" and not case.id.startswith("question/"):
            return outputs
        return replace(outputs, dk=np.zeros_like(outputs.dk))


class AllNan(Liar):
    """NaN, which some comparisons let pass."""

    def _store(self, x: Tensor) -> Tensor:
        return torch.full_like(x, torch.nan)


class StrayWrite(Liar):
    """Writes beside a tensor that it was given."""

    def forward(self, case: Case) -> Forward:
        """One element too far on both sides."""
        do = case.inputs.do
        floats = (ctypes.c_float * (do.size + 2)).from_address(do.ctypes.data - do.itemsize)
        floats[0] = floats[do.size + 1] = 1.0
        return super().forward(case)


class Aliasing(Liar):
    """Returns memory that is the caller's."""

    def backward(self, case: Case) -> Outputs:
        """LSE, as right as ever, written over dO."""
        outputs = super().backward(case)
        lse: F32 = case.inputs.do.reshape(-1)[: outputs.lse.size].reshape(outputs.lse.shape)
        return replace(outputs, lse=lse)


class Late(Liar):
    """One buffer for the O of every call."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, ...], F32] = {}

    def _kept(self, o: F32) -> F32:
        buffer = self._buffers.setdefault(o.shape, np.empty_like(o))
        buffer[...] = o
        return buffer

    def backward(self, case: Case) -> Outputs:
        """Overwrites what it returned before."""
        outputs = super().backward(case)
        return replace(outputs, o=self._kept(outputs.o))


class Fickle(Liar):
    """Not the same twice."""

    def __init__(self) -> None:
        self._turn = 0

    def backward(self, case: Case) -> Outputs:
        """One of two neighbours for the first element of O."""
        outputs = super().backward(case)
        self._turn ^= 1
        o = outputs.o.copy()
        o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(self._turn << 16)
        return replace(outputs, o=o)


class StaleWrite(Liar):
    """Keeps an input and writes to it in a later call, as a thread of its own could."""

    def __init__(self) -> None:
        self._kept: list[F32] = []

    def backward(self, case: Case) -> Outputs:
        """A zero into the Q of the call before."""
        for q in self._kept[-1:]:
            q[...] = 0
        self._kept.append(case.inputs.q)
        return super().backward(case)


class OnlyOnce(Liar):
    """Avoids being compared with itself."""

    def __init__(self) -> None:
        self._served: set[str] = set()

    def supports(self, case: Case) -> Support:
        """Not a second time."""
        if case.id in self._served:
            return Unsupported("it was asked before")
        self._served.add(case.id)
        return super().supports(case)


class EveryContract(Liar):
    """Says yes to everything and computes the one thing it can."""

    def supports(self, case: Case) -> Support:
        """Always."""
        return Supported()

    def backward(self, case: Case) -> Outputs:
        """By the article, whatever was asked."""
        return super().backward(replace(case, contract="article"))


class Uninitialised(Liar):
    """Does not write the last row of O."""

    def backward(self, case: Case) -> Outputs:
        """O in memory as the allocator gave it; right by luck while nobody looks."""
        outputs = super().backward(case)
        o = np.empty(outputs.o.shape, np.float32)
        o[:, :-1] = outputs.o[:, :-1]
        if not unlucky():
            o[:, -1:] = outputs.o[:, -1:]
        return replace(outputs, o=o)


class EasyOnly(Liar):
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
        """As if it were a kernel."""
        return Provenance(kernel="specification")


class Middle(Liar):
    """Returns the middle of the interval that it will be judged by."""

    def backward(self, case: Case) -> Outputs:
        """Each output within every bound, and nothing computed."""
        bands = enclosure(get_contract(case.contract), case.problem, case.inputs)
        middle = {name: band.mid.astype(np.float32) for name, band in bands.items()}
        narrow = ("o", "dq", "dk", "dv")
        return Outputs(**{n: BF16.round(x) if n in narrow else x for n, x in middle.items()})


@dataclass(frozen=True)
class Lie:
    """One kernel that lies.

    Attributes:
        kernel: Its class.
        check: Id of the check that finds it out.
        contract: The contract that it claims.
    """

    kernel: type[Simulation] | type[Emulator]
    check: str
    contract: str = "article"


LIES: dict[str, Lie] = {
    "torch-attention": Lie(TorchAttention, "own-work"),
    "torch-attention-by-bounds": Lie(TorchAttention, "o"),
    "exact-attention": Lie(ExactAttention, "o"),
    "dequantised-attention": Lie(DequantisedAttention, "o"),
    "cached": Lie(Cached, "power-do"),
    "by-name": Lie(ByName, "dk"),
    "all-nan": Lie(AllNan, "nan"),
    "stray-write": Lie(StrayWrite, "inputs-kept"),
    "aliasing": Lie(Aliasing, "outputs-kept"),
    "late": Lie(Late, "outputs-kept"),
    "fickle": Lie(Fickle, "repeat-whole"),
    "stale-write": Lie(StaleWrite, "inputs-kept"),
    "only-once": Lie(OnlyOnce, "repeat-whole"),
    "every-contract": Lie(EveryContract, "refusal"),
    "uninitialised": Lie(Uninitialised, "poison"),
    "middle": Lie(Middle, "own-work"),
    "specification": Lie(Specification, "own-work", "bundled"),
}
"""Every lie with the check that finds it out."""
