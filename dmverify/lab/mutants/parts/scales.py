"""Faults of the operands' scales and of K's mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.lab.mutants.plants import WINDOW
from dmverify.spec.attention.operands import Prepared
from dmverify.spec.case import F32, Case
from dmverify.spec.formats import BF16
from dmverify.spec.namespace import Array
from dmverify.spec.scaling import token_mean

BLOCK = {"q": 128, "k": 64, "v": 64, "do": 128}


def _scaled(name: str, change: Callable[[F32], F32]) -> Plant:
    """Other scales (B, H, N, 1) beside the same codes."""

    def step(original: Step, case: Case, *args: Any, **named: Any) -> Prepared:
        prepared: Prepared = original(*args, **named)
        codes, scale = prepared.tensors[name]
        changed = np.ascontiguousarray(change(scale), np.float32)
        return replace(prepared, tensors={**prepared.tensors, name: (codes, changed)})

    return Plant({"interpret.prepare": step})


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


def _zero_is_nan(original: Step, case: Case, *args: Any, **named: Any) -> Prepared:
    """0 / 0 where a block of V is zero."""
    prepared: Prepared = original(*args, **named)
    codes, scale = prepared.tensors["v"]
    blocks = codes.reshape(*codes.shape[:2], -1, WINDOW * codes.shape[3])
    zero = (blocks == 0).all(-1, keepdims=True)
    nan = np.where(zero, np.float32(np.nan), blocks).reshape(codes.shape)
    nan[:, :, case.problem.keys :] = 0
    return replace(prepared, tensors={**prepared.tensors, "v": (nan, scale)})


def _mean_in_bf16(original: Step, case: Case, k: Array, rule: str) -> Array:
    return BF16.round(original(k, rule), saturate=False)


def _less_bf16_mean(original: Step, case: Case, k: Array, rule: str) -> Array:
    return k - BF16.round(token_mean(k, rule), saturate=False)


def _named(name: str) -> str:
    return {"do": "dO"}.get(name, name.upper())


ROWS = (
    *(
        Fault(
            f"{name}-scale-dropped",
            "scale",
            f"the scale of {_named(name)} is taken to be 1",
            check,
            _scaled(name, _ones),
            (on.GAUSSIAN,),
        )
        for name, check in (("q", "lse"), ("k", "lse"), ("do", "dv"))
    ),
    *(
        Fault(
            f"{name}-scale-neighbour",
            "scale",
            f"blocks of {_named(name)} take the scale of the block before",
            check,
            _scaled(name, _neighbours(name)),
            (case,),
        )
        for name, check, case in (
            ("q", "lse", on.DISTINCT_QUERIES),
            ("k", "lse", on.DISTINCT),
            ("v", "o", on.DISTINCT),
            ("do", "dv", on.DISTINCT_QUERIES),
        )
    ),
    Fault(
        "k-scale-transposed",
        "scale",
        "K's scales are stored (block, head) and read (head, block)",
        "lse",
        _scaled("k", _transposed),
        (on.DISTINCT_HEADS,),
    ),
    Fault(
        "v-scale-inverse",
        "scale",
        "V is multiplied by the inverse of its scale",
        "o",
        _scaled("v", _inverse),
        (on.GAUSSIAN,),
    ),
    Fault(
        "v-scale-first-reused",
        "scale",
        "the first block's scale serves all of V",
        "o",
        _scaled("v", _first),
        (on.DISTINCT,),
    ),
    Fault(
        "scale-power-of-two",
        "scale",
        "scales are rounded to powers of two, codes with them",
        "lse",
        Plant(contract={"operand_rule": "amax-power-of-two"}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "scale-per-tensor",
        "scale",
        "one scale a tensor where blocks are promised",
        "o",
        Plant(contract=dict.fromkeys(("q_block", "k_block", "v_block", "do_block"))),
        (on.DISTINCT,),
    ),
    Fault(
        "zero-block-nan",
        "scale",
        "a block of zeros is divided by its amax",
        "nan",
        Plant({"interpret.prepare": _zero_is_nan}),
        (on.ZERO_V,),
    ),
    Fault(
        "key-mean-skipped",
        "scale",
        "K is quantised without centring",
        "lse",
        Plant(contract={"centre_k": "none"}),
        (on.K_OFFSET,),
    ),
    Fault(
        "key-mean-bf16",
        "scale",
        "the mean of K is rounded to BF16 before it is subtracted",
        "lse",
        Plant({"operands.token_mean": _mean_in_bf16, "operands.centre": _less_bf16_mean}),
        (on.K_OFFSET,),
    ),
)
"""Faults of this part."""
