"""What all peers share: their limits as data, the way in and out of torch, and the protocol.

A peer's ``run`` returns raw tensors in the formats that the kernel stored; ``forward`` and
``backward`` widen them to float32 without rounding (FP8 codes times their scale, a power of two).
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.errors import KernelError
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

Raw = dict[str, Tensor]
Step = Callable[[], Raw]
HOPPER = (9, 0)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a peer serves.

    Attributes:
        head_dims: Head dimensions.
        gpu: Capability of the GPU it needs: ``any``, ``hopper`` or ``none``.
        module: Python module that it is in.
        grouped: Whether query heads may share a key head.
        causal: Lengths that its causal mask serves with the bottom-right alignment of a
            ``Problem``: ``any`` or ``equal``.
        backward: Whether it has one.
        finite: Whether its scales need finite inputs.
        empty: Whether lengths and batches of 0 are served.
    """

    head_dims: tuple[int, ...]
    gpu: str = "any"
    module: str = "torch"
    grouped: bool = True
    causal: str = "any"
    backward: bool = True
    finite: bool = False
    empty: bool = False

    def refusal(self, problem: Problem) -> str:
        """Why a problem is not served, or nothing."""
        sizes = (problem.batch, problem.queries, problem.keys)
        rules = (
            (problem.head_dim not in self.head_dims, f"head_dim is one of {self.head_dims}"),
            (problem.group > 1 and not self.grouped, "every query head has its own key head"),
            (
                problem.causal and self.causal == "equal" and problem.offset != 0,
                "its causal mask is aligned to the top left: queries and keys must be as many",
            ),
            (0 in sizes and not self.empty, "batch and lengths are at least 1"),
        )
        return "; ".join(rule for wrong, rule in rules if wrong)


class Peer(ABC):
    """A kernel under test (see ``dmverify.conformance.adapter.Kernel``).

    Attributes:
        name: As in the table of peers.
        contract: Name of the contract that its documents and source state.
        limits: What it serves.
    """

    name: str
    contract: str
    limits: Limits

    @property
    def info(self) -> Provenance:
        """Name, version of the library, device."""
        gpu = torch.cuda.is_available() and self.limits.gpu != "none"
        return Provenance(
            kernel=self.name,
            compiler=self.version(),
            device=torch.cuda.get_device_name() if gpu else "cpu",
        )

    @abstractmethod
    def version(self) -> str:
        """Versions of everything that decides its numbers."""

    @abstractmethod
    def step(self, case: Case, *, backward: bool) -> Step:
        """Places a case in memory; each call of the step runs the kernel once on it.

        A step gives raw o and lse, and dq, dk, dv if asked for: tensors (B, N, H, D), lse
        (B, H, N).
        """

    def run(self, case: Case, *, backward: bool) -> Raw:
        """One run on one case."""
        return self.step(case, backward=backward)()

    def supports(self, case: Case) -> Support:
        """The table of limits, what is installed, and the GPU."""
        reasons = (
            "" if case.contract == self.contract else f"its contract is {self.contract}",
            self.limits.refusal(case.problem),
            self.missing(),
            "its scale rule needs finite inputs" if self.limits.finite and not finite(case) else "",
        )
        found = "; ".join(reason for reason in reasons if reason)
        return Unsupported(found) if found else Supported()

    def missing(self) -> str:
        """What this machine lacks, or nothing."""
        if importlib.util.find_spec(self.limits.module) is None:
            return f"no module named {self.limits.module} on this machine"
        if self.limits.gpu == "none":
            return ""
        if not torch.cuda.is_available():
            return "no GPU on this machine"
        if self.limits.gpu == "hopper" and torch.cuda.get_device_capability() != HOPPER:
            return "no Hopper GPU (compute capability 9.0) on this machine"
        return ""

    def forward(self, case: Case) -> Forward:
        """O and LSE of a forward pass."""
        raw = self._served(case, backward=False)
        return Forward(o=self.widened("o", raw), lse=self.widened("lse", raw))

    def backward(self, case: Case) -> Outputs:
        """Every output.

        Raises:
            NotImplementedError: If the peer has a forward only.
            KernelError: If this machine lacks what it needs.
        """
        if not self.limits.backward:
            raise NotImplementedError(f"{self.name} has a forward only")
        raw = self._served(case, backward=True)
        return Outputs(**{name: self.widened(name, raw) for name in GRADED})

    def widened(self, name: str, raw: Raw) -> F32:
        """One raw output as float32: FP8 codes times the scale ``unit_NAME``, a power of two."""
        wide = to_numpy(raw[name])
        unit = raw.get(f"unit_{name}")
        return wide if unit is None else wide * np.float32(float(unit))

    def _served(self, case: Case, *, backward: bool) -> Raw:
        """A run where the peer is; what it does not promise to serve is asked all the same."""
        if missing := self.missing():
            raise KernelError(
                f"{case.id} on {self.name}",
                rule=missing,
                fix="ask supports(case) first, and run it where the kernel is installed",
            )
        return self.run(case, backward=backward)


GRADED = ("o", "lse", "dq", "dk", "dv")


def device() -> str:
    """Where peers run: the GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def cudnn_version() -> str:
    """The cuDNN that torch has loaded."""
    return f"cuDNN {torch.backends.cudnn.version()}"  # type: ignore[no-untyped-call]


def finite(case: Case) -> bool:
    """Whether every input number is finite."""
    return all(bool(np.isfinite(x).all()) for _, x in case.inputs.items())


def to_torch(case: Case, where: str) -> tuple[Tensor, ...]:
    """q, k, v, do in BF16, (B, N, H, D); the numbers are BF16 already."""
    return tuple(torch.from_numpy(x).to(where).bfloat16() for _, x in case.inputs.items())


def to_numpy(x: Tensor) -> F32:
    """A tensor widened to float32."""
    return np.ascontiguousarray(x.detach().float().cpu().numpy())
