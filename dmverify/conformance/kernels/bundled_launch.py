"""Runs the bundled kernel on the tensors of a case: the only place where cases meet CUDA.

Tensors keep the strides of the case's arrays, and what lies between their elements on the device is
NaN, so a kernel that reads it shows. Lengths of 0 go through the public function, everything else
through the launch functions, which also return delta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dmverify.errors import ContractError
from dmverify.kernel.api import CENTRINGS, aligned, dm_attn_func
from dmverify.kernel.build import Edits
from dmverify.kernel.launch import Dump, Options, backward, forward, prepare
from dmverify.kernel.stripes import Shape
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import BUNDLED, get_contract
from dmverify.spec.problem import Problem

OPEN = ("delta", "ds_cast", "centre_k", "normaliser")  # what contracts of the kernel choose
VECTOR = 8  # BF16 elements of one 16-byte load
ALIGNED = (
    4  # float32 elements between numpy's 16-byte aligned addresses; an offset counts modulo this
)


@dataclass(frozen=True)
class Choices:
    """How the kernels are built.

    Attributes:
        compiler: ``nvrtc`` or ``nvcc``.
        flags: Extra compiler flags.
        dump: Also return P, dP and dS before the cast.
        edits: Changes of the source before it is compiled, which make a faulty kernel.
    """

    compiler: str = "nvrtc"
    flags: tuple[str, ...] = ()
    dump: bool = False
    edits: Edits = ()


@dataclass(frozen=True)
class Tensors:
    """The inputs of a case as BF16 tensors on the device, (B, N, H, D)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor


@dataclass(frozen=True)
class Ran:
    """Outputs on the device; delta (B, H, Nq) is None when a length is 0."""

    o: torch.Tensor
    lse: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    delta: torch.Tensor | None
    dump: Dump | None = None

    def outputs(self) -> Outputs:
        """Copies everything to the host; waits for the device."""
        delta = None if self.delta is None else on_host(self.delta)
        named = {name: on_host(getattr(self, name)) for name in ("o", "lse", "dq", "dk", "dv")}
        return Outputs(**named, delta=delta)


def options_of(case: Case, choices: Choices) -> Options:
    """The kernel's options for a case; see ``options_for``."""
    return options_for(case.contract, case.problem, choices)


def options_for(contract: str, problem: Problem, choices: Choices) -> Options:
    """The kernel's options for a contract and a problem.

    Raises:
        ContractError: If the contract is not ``bundled`` in some delta mode and cast, with or
            without centred keys, by either normaliser.
    """
    stated = get_contract(contract)
    chosen = {name: getattr(stated, name) for name in OPEN}
    if stated.centre_k not in CENTRINGS or get_contract(BUNDLED.base, **chosen) != stated:
        raise ContractError(
            stated.name,
            rule=f"the bundled kernel follows the contract bundled, whose {', '.join(OPEN)} are "
            f"open, and centre_k is one of {', '.join(CENTRINGS)}",
            fix="name bundled:delta=...,ds_cast=...",
        )
    return Options(
        problem.causal,
        stated.delta,
        stated.ds_cast == "zero-sum",
        problem.scale,
        stated.centre_k,
        stated.normaliser,
        dump=choices.dump,
        compiler=choices.compiler,
        flags=choices.flags,
        edits=choices.edits,
    )


def place(case: Case, *, device: str = "cuda") -> Tensors:
    """The inputs on the device, with the strides of the case's arrays."""
    placed = {name: on_device(array, device) for name, array in case.inputs.items()}
    return Tensors(**placed)


def on_device(x: F32, device: str) -> torch.Tensor:
    """One tensor on the device, with the strides and the misalignment of the array."""
    if not x.size:
        return torch.empty(x.shape, dtype=torch.bfloat16, device=device)
    steps = [stride // x.itemsize for stride in x.strides]
    narrow = x[tuple(slice(None) if step else slice(1) for step in steps)]
    last = sum((n - 1) * step for n, step in zip(narrow.shape, steps, strict=True))
    offset = x.__array_interface__["data"][0] // x.itemsize % ALIGNED
    base = torch.full((offset + last + 1,), torch.nan, dtype=torch.bfloat16, device=device)
    view = base.as_strided(narrow.shape, [step or VECTOR for step in steps], offset)
    view.copy_(torch.from_numpy(np.array(narrow, order="C")))
    return view.expand(x.shape)


def launch(tensors: Tensors, options: Options, *, units: int | None = None) -> Ran:
    """Forward and backward on the current stream, without waiting.

    Args:
        tensors: Inputs on the device.
        options: See ``options_of``.
        units: Largest number of (head, 128-query block) units of one stripe of the backward; None
            is the usual one.
    """
    q, k, v, do = (aligned(x) for x in (tensors.q, tensors.k, tensors.v, tensors.do))
    if not (q.numel() and k.numel()):
        return run_public(tensors, options)
    shape, operands = prepare(q, k, v, options, backward=True)
    fwd = forward(shape, operands, options)
    dq, dk, dv, delta, dump = backward(shape, operands, fwd, do, options, units=units)
    return Ran(fwd.out, fwd.lse, dq, dk, dv, _rows(delta, shape), dump)


def launch_forward(tensors: Tensors, options: Options) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE of a forward pass that no backward follows."""
    q, k, v = (aligned(x) for x in (tensors.q, tensors.k, tensors.v))
    if not (q.numel() and k.numel()):
        ran = run_public(tensors, options)
        return ran.o, ran.lse
    shape, operands = prepare(q, k, v, options, backward=False)
    fwd = forward(shape, operands, options)
    return fwd.out, fwd.lse


def on_host(x: torch.Tensor) -> F32:
    """A float32 array with the tensor's numbers."""
    array: F32 = np.ascontiguousarray(x.detach().float().cpu().numpy())
    return array


def _rows(delta: torch.Tensor, shape: Shape) -> torch.Tensor:
    return delta.view(shape.batch, shape.heads, -1)[:, :, : shape.nq]


def run_public(tensors: Tensors, options: Options) -> Ran:
    """Through ``dm_attn_func`` and autograd, which return no delta."""
    leaves = [x.detach().requires_grad_() for x in (tensors.q, tensors.k, tensors.v)]
    o, lse = dm_attn_func(
        *leaves,
        causal=options.causal,
        mode=options.mode,
        ds_cast="zero-sum" if options.zero_sum else "nearest",
        centre_k=options.centre_k,
        normaliser=options.normaliser,
        softmax_scale=options.scale,
        return_lse=True,
    )
    dq, dk, dv = torch.autograd.grad(o, leaves, tensors.do)
    return Ran(o.detach(), lse.detach(), dq, dk, dv, None)
