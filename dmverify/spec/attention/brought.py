"""Operands that come as codes with scales, as a caller of a kernel or a cache has them.

A kernel of a contract with ``operand_rule = "given"`` does not quantise: it gets numbers of each
operand's format, and what they are multiplied with. Which codes and scales a contract takes is said
here, in the words of its fields.
"""

from __future__ import annotations

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.attention.operand_casts import OperandCast, coded, operand_casts
from dmverify.spec.case import SCALE, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem


def brought_scales(contract: Contract, inputs: Inputs) -> dict[str, Array]:
    """The scales that come with the inputs, (B, H, N, 1), or (B, H, N, D) where channels have own.

    Args:
        contract: The numerics that the codes are for.
        inputs: Tensors; codes are those with a scale.

    Raises:
        InputError: For codes that are no numbers of the contract's format, that it quantises
            itself, or whose scales vary where it sums over codes.
    """
    operands = operand_casts(contract)
    on_codes = contract.schedule.on_codes
    found = {}
    for name, scale in inputs.scales.items():
        x, operand = getattr(inputs, name), operands[name]
        fmt = operand.element
        codes = fmt.round(x, saturate=False)
        if not operand.given or not np.array_equal(codes, x, True):
            raise InputError(
                f"{name} as codes with a scale under {contract.name}",
                rule=f"codes are taken where operand_rule is 'given', and are {fmt.name} numbers",
                fix=f"judge by a contract with operand_rule='given' and the {name}_format of these",
            )
        if on_codes and operand.rows is None and scale.shape[1] > 1:
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


def hand_over(contract: Contract, problem: Problem, inputs: Inputs) -> Inputs:
    """The inputs as a kernel of the contract gets them: codes and scales, where these are given.

    Args:
        contract: Gives formats, blocks and whether operands are given as codes.
        problem: Sizes.
        inputs: BF16 tensors, or codes with scales, which stay as they are.

    Raises:
        InputError: For numbers that the contract's rule makes no codes of, or codes that it does
            not take.
    """
    taken = [each for each in operand_casts(contract).values() if each.given]
    if brought_scales(contract, inputs) or not taken:
        return inputs
    codes, scales = dict(inputs.items()), {}
    with np.errstate(all="ignore"):
        for operand in taken:
            name = operand.name
            if name == "do" and not contract.gradients:
                continue
            turned = np.ascontiguousarray(codes[name].swapaxes(1, 2))
            made = coded(operand, turned, problem.kv_heads)
            codes[name], whole = (np.ascontiguousarray(y.swapaxes(1, 2)) for y in made)
            scales[name] = whole[_shared(operand)]
    return Inputs(**codes, scales=scales)


def _shared(operand: OperandCast) -> tuple[slice, ...]:
    """The part of the scales (B, N, H, ...) that the others repeat."""
    first, every = slice(1), slice(None)
    rows = first if operand.rows is None else every
    return (first, rows, first) if operand.span == "call" else (every, rows)
