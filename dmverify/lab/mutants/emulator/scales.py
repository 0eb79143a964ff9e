"""Mutants of the operands' scales and of K's mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import WINDOW
from dmverify.spec.attention.operands import Prepared
from dmverify.spec.case import F32
from dmverify.spec.formats import BF16
from dmverify.spec.scaling import token_mean

BLOCK = {"q": 128, "k": 64, "v": 64, "do": 128}


def _scaled(name: str, change: Callable[[F32], F32]) -> Mutation:
    """Other scales (B, H, N, 1) beside the same codes."""

    def step(call: Call) -> Prepared:
        prepared: Prepared = call.result()
        codes, scale = prepared.tensors[name]
        changed = np.ascontiguousarray(change(scale), np.float32)
        return replace(prepared, tensors={**prepared.tensors, name: (codes, changed)})

    return Mutation({"run.prepare": step})


def _ones(scale: F32) -> F32:
    return np.ones_like(scale)


def _inverse(scale: F32) -> F32:
    return (np.float32(1) / scale).astype(np.float32)


def _first(scale: F32) -> F32:
    return np.broadcast_to(scale[:, :, :1], scale.shape)


def _neighbours(name: str) -> Callable[[F32], F32]:
    return lambda scale: np.roll(scale, BLOCK[name], axis=2)


def _transposed(scale: F32) -> F32:
    """Scales stored (block, head) and read (head, block)."""
    per_block = scale[:, :, ::WINDOW, 0]
    read = np.ascontiguousarray(per_block.swapaxes(1, 2)).reshape(per_block.shape)
    return np.repeat(read, WINDOW, axis=2)[..., None]


def _zero_is_nan(call: Call) -> Prepared:
    """0 / 0 where a block of V is zero."""
    prepared: Prepared = call.result()
    codes, scale = prepared.tensors["v"]
    blocks = codes.reshape(*codes.shape[:2], -1, WINDOW * codes.shape[3])
    zero = (blocks == 0).all(-1, keepdims=True)
    nan = np.where(zero, np.float32(np.nan), blocks).reshape(codes.shape)
    nan[:, :, call.case.problem.keys :] = 0
    return replace(prepared, tensors={**prepared.tensors, "v": (nan, scale)})


def _mean_in_bf16(call: Call) -> Any:
    return BF16.round(call.result(), saturate=False)


def _less_bf16_mean(call: Call) -> Any:
    return call["k"] - BF16.round(token_mean(call["k"], call["rule"]), saturate=False)


MUTATIONS = {
    **{f"{name}-scale-dropped": _scaled(name, _ones) for name in ("q", "k", "do")},
    **{f"{name}-scale-neighbour": _scaled(name, _neighbours(name)) for name in BLOCK},
    "k-scale-transposed": _scaled("k", _transposed),
    "v-scale-inverse": _scaled("v", _inverse),
    "v-scale-first-reused": _scaled("v", _first),
    "scale-power-of-two": Mutation(contract={"operand_rule": "amax-power-of-two"}),
    "scale-per-tensor": Mutation(
        contract=dict.fromkeys(("q_block", "k_block", "v_block", "do_block"))
    ),
    "zero-block-nan": Mutation({"run.prepare": _zero_is_nan}),
    "key-mean-skipped": Mutation(contract={"centre_k": "none"}),
    "key-mean-bf16": Mutation(
        {"operands.token_mean": _mean_in_bf16, "operands.centre": _less_bf16_mean}
    ),
}
"""By the mutant's id."""
