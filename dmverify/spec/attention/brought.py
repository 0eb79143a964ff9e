"""Operands that come as codes with scales, as a caller of a kernel or a cache has them.

A kernel of a contract with ``operand_rule = "given"`` does not quantise: it gets numbers of each
operand's format, and what they are multiplied with. Which codes and scales a contract takes is said
here, in the words of its fields.
"""

from __future__ import annotations

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.case import SCALE, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16
from dmverify.spec.namespace import Array


def brought_scales(contract: Contract, inputs: Inputs) -> dict[str, Array]:
    """The scales that come with the inputs, (B, H, N, 1), or (B, H, N, D) where channels have own.

    Args:
        contract: The numerics that the codes are for.
        inputs: Tensors; codes are those with a scale.

    Raises:
        InputError: For codes that are no numbers of the contract's format, that it quantises
            itself, or whose scales vary where it sums over codes.
    """
    found = {}
    for name, scale in inputs.scales.items():
        x, fmt = getattr(inputs, name), contract.element(name)
        codes = fmt.round(x, saturate=False)
        if contract.operand_rule != "given" or fmt is BF16 or not np.array_equal(codes, x, True):
            raise InputError(
                f"{name} as codes with a scale under {contract.name}",
                rule=f"codes are taken where operand_rule is 'given', and are {fmt.name} numbers",
                fix=f"judge by a contract with operand_rule='given' and the {name}_format of these",
            )
        whole = contract.schedule.operands == "whole" and getattr(contract, f"{name}_block") is None
        if whole and scale.shape[1] > 1:
            raise InputError(
                f"{name}{SCALE} with one scale a token under {contract.name}",
                rule=f"a dot on codes sums over the tokens of {name}, which share a scale",
                fix="give one scale a head or channel, or judge by schedule='rows'",
            )
        turned = scale.swapaxes(1, 2)
        width = x.shape[3] if scale.shape[3] > 1 else 1
        found[name] = np.ascontiguousarray(
            np.broadcast_to(turned, (x.shape[0], x.shape[2], x.shape[1], width))
        )
    return found
