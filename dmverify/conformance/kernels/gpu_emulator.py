"""The specification's bits on a GPU: the same steps on torch tensors, for sizes a CPU cannot hold.

One head at a time, so a head of 8192 x 8192 takes a few gigabytes. Nothing of the bundled kernel
takes part, and neither does the tensor core: products are the elementwise model of
``dmverify.spec.machine.hopper.wgmma_fast``.
"""

from __future__ import annotations

import numpy as np
import torch

from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.namespace import Array


def gpu_bits(device: str = "cuda") -> Bits:
    """The interpretation whose arrays are torch tensors on a device."""

    def move(x: Array) -> Array:
        return torch.from_numpy(np.ascontiguousarray(x)).to(device)

    return Bits(move)


def emulate(case: Case, *, device: str = "cuda") -> Outputs:
    """The outputs that the contract's bits give, computed on a device.

    Args:
        case: Any case under a contract with bits.
        device: Torch device.

    Raises:
        ContractError: If the contract leaves an order open.
    """
    contract = get_contract(case.contract)
    inputs = Inputs(**{name: np.ascontiguousarray(x) for name, x in case.inputs.items()})
    return interpret(contract, case.problem, inputs, gpu_bits(device)).outputs
