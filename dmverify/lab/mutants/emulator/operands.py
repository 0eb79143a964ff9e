"""How an operand becomes codes: rounded twice, or divided otherwise than stated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.spec.case import F32
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.namespace import Array

TOP = np.float32(448)
Quotient = Callable[[F32, F32], F32]
"""``quotient(x, amax of the block)``: the float32 number that is rounded to E4M3."""


def _coded(name: str, quotient: Quotient) -> Mutation:
    """The codes of one operand from another quotient, beside the scales as they are due."""

    def step(call: Call) -> tuple[Array, Array]:
        codes, scale = call.result()
        if call["operand"].name == name:
            x, block = call["x"], call["operand"].rows
            codes = codes.copy()
            codes[:, :, : x.shape[2]] = _blockwise(x, block, quotient)
        return codes, scale

    return Mutation({"operand_casts._quantised": step})


def _blockwise(x: Array, rows: int, quotient: Quotient) -> Array:
    made = np.empty_like(x)
    for start in range(0, x.shape[2], rows):
        block = x[:, :, start : start + rows]
        amax = np.abs(block).max((2, 3), keepdims=True)
        made[:, :, start : start + rows] = E4M3.round(quotient(block, amax), saturate=True)
    return made


def _through_fp16(x: F32, amax: F32) -> F32:
    return (x * (TOP / amax)).astype(np.float16).astype(np.float32)


def _through_bf16(x: F32, amax: F32) -> F32:
    rounded: F32 = BF16.round(x * (TOP / amax), saturate=False)
    return rounded


def _divided(x: F32, amax: F32) -> F32:
    return x / (amax / TOP)


def _by_inverse(x: F32, amax: F32) -> F32:
    return x * (np.float32(1) / (amax / TOP))


RULES: dict[str, Quotient] = {
    "through-fp16": _through_fp16,
    "through-bf16": _through_bf16,
    "divided": _divided,
    "by-inverse-scale": _by_inverse,
}

MUTATIONS = {
    f"{name}-{rule}": _coded(name, quotient)
    for name in ("q", "k", "v", "do")
    for rule, quotient in RULES.items()
}
"""By the mutant's id."""
