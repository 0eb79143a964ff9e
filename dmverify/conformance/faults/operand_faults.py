"""Faults of what the steps are given: mask, scales, head grouping, addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmverify.conformance.faults import cases as on
from dmverify.conformance.faults.fault import Fault, Plant, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Head, Operand, Prepared
from dmverify.spec.attention.products import constant
from dmverify.spec.attention.softmax import Scores
from dmverify.spec.case import F32, Case, Inputs, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

SENTINEL = -1e4  # a logit that some kernels write where the mask hides a key
BLOCK = {"q": 128, "k": 64, "v": 64, "do": 128}
WINDOW = 64


def _seeing(rule: Callable[[Problem, Array, Array], Array]) -> Plant:
    """Another mask: ``rule(problem, query, key)``, queries beyond the last always masked."""

    def step(original: Step, case: Case, *args: Any, **named: Any) -> Prepared:
        prepared: Prepared = original(*args, **named)
        i, j = np.ogrid[: prepared.seen.shape[0], : prepared.seen.shape[1]]
        seen = rule(case.problem, i, j) & (i < case.problem.queries)
        return replace(prepared, seen=seen)

    return Plant({"interpret.prepare": step})


def _limit(p: Problem, i: Array, past: int) -> Array:
    """The first key that a query does not see, ``past`` keys further."""
    return np.minimum(i + p.offset + 1, p.keys) + past if p.causal else p.keys + past


def _top_left(p: Problem, i: Array, j: Array) -> Array:
    return (j <= i) & (j < p.keys)


def _further(p: Problem, i: Array, j: Array) -> Array:
    return j < _limit(p, i, 1)


def _nearer(p: Problem, i: Array, j: Array) -> Array:
    return j < _limit(p, i, -1)


def _with_padding(p: Problem, i: Array, j: Array) -> Array:
    return j <= i + p.offset if p.causal else (j >= 0) & (i >= 0)


def _without_second_tile(p: Problem, i: Array, j: Array) -> Array:
    return (j < _limit(p, i, 0)) & (j // WINDOW != 1)


def _sentinel(original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head) -> Scores:
    s: Scores = original(a, contract, head)
    low = a.div(constant(a, SENTINEL * 1.4426950408889634), s.factor)
    rows, windows, width = s.raw.shape
    real = np.zeros((rows, windows * width), bool)
    real[: case.problem.queries, : case.problem.keys] = True
    seen = real.reshape(s.raw.shape)
    live = seen.any(axis=2, keepdims=True)
    return replace(s, raw=np.where(s.seen, s.raw, low), seen=seen, live=live)


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


def _modulo(original: Step, case: Case, self: Prepared, a: Arithmetic, b: int, h: int) -> Head:
    head: Head = original(self, a, b, h)
    other = original(self, a, b, h % self.problem.kv_heads * self.problem.group)
    return replace(head, k=other.k, v=other.v, k_mean=other.k_mean)


@dataclass(frozen=True)
class _Acquainted(Head):
    """A head that also knows the keys of another."""

    stranger: Operand


def _with_stranger(
    original: Step, case: Case, self: Prepared, a: Arithmetic, b: int, h: int
) -> Head:
    head: Head = original(self, a, b, h)
    other = original(self, a, b, (h + self.problem.group) % self.problem.heads)
    return _Acquainted(**vars(head), stranger=other.k)


def _keys_of_stranger(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: _Acquainted, ds: Any
) -> Array:
    return original(a, contract, replace(head, k=head.stranger), ds)


def _only_last_head(original: Step, case: Case, a: Arithmetic, *args: Any) -> Array:
    *most, _ = args
    return original(a, *most, constant(a, 0.0)[0])


def _tokens(change: Callable[[F32], F32], *names: str) -> Plant:
    """Tensors that are read differently."""

    def inputs(read: Inputs) -> Inputs:
        return Inputs(**{n: change(x) if n in names else x for n, x in read.items()})

    return Plant(inputs=inputs)


def _wrapped(x: F32) -> F32:
    return x[:, np.arange(x.shape[1]) % WINDOW]


def _first_batch(x: F32) -> F32:
    return np.broadcast_to(x[:1], x.shape)


def _as_stored(x: F32) -> F32:
    """Memory order (B, H, N, D) taken for (B, N, H, D)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape)


def _dead(change: dict[str, float]) -> Plant:
    """Other values on rows that see no key."""

    def outputs(made: Outputs, case: Case) -> Outputs:
        dead = ~case.problem.mask().any(axis=1)
        changed = {name: getattr(made, name).copy() for name in change}
        for name, value in change.items():
            changed[name][(..., dead) if name == "lse" else (slice(None), dead)] = value
        return replace(made, **changed)

    return Plant(outputs=outputs)


def _named(name: str) -> str:
    return {"do": "dO"}.get(name, name.upper())


ROWS = (
    Fault(
        "mask-top-left",
        "mask",
        "the causal mask is aligned to the top left",
        "lse",
        _seeing(_top_left),
        (on.MORE_KEYS,),
    ),
    Fault(
        "mask-one-further",
        "mask",
        "every query sees one key too many",
        "lse",
        _seeing(_further),
        (on.GAUSSIAN,),
    ),
    Fault(
        "mask-one-nearer",
        "mask",
        "every query sees one key too few",
        "lse",
        _seeing(_nearer),
        (on.GAUSSIAN,),
    ),
    Fault(
        "mask-finite-sentinel",
        "mask",
        f"masked logits are {SENTINEL:g}, and real ones may be lower",
        "o",
        Plant({"forward.scores": _sentinel}),
        (on.HUGE_LOGITS,),
    ),
    Fault(
        "mask-tail-keys",
        "mask",
        "keys beyond the last take part, as zeros",
        "lse",
        _seeing(_with_padding),
        (on.GAUSSIAN_FULL,),
    ),
    Fault(
        "dead-rows-nan",
        "mask",
        "0 / 0 on rows that see no key",
        "dead-rows",
        _dead({"o": np.nan, "dq": np.nan}),
        (on.MORE_QUERIES,),
    ),
    Fault(
        "dead-rows-lse-zero",
        "mask",
        "LSE of rows that see no key is 0",
        "dead-rows",
        _dead({"lse": 0.0}),
        (on.MORE_QUERIES,),
    ),
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
        "gqa-modulo",
        "GQA",
        "query heads find their key head by modulo instead of division",
        "o",
        Plant({"operands.Prepared.head": _modulo}),
        (on.FOUR_HEADS,),
    ),
    Fault(
        "gqa-sum-overwritten",
        "GQA",
        "dK and dV hold the last query head of their group only",
        "dk",
        Plant({"interpret.token_gradient": _only_last_head}),
        (on.GROUPED,),
    ),
    Fault(
        "k-transpose-wrong-head",
        "transposes",
        "dQ uses the transposed keys of another head",
        "dq",
        Plant(
            {
                "operands.Prepared.head": _with_stranger,
                "backward._query_gradient": _keys_of_stranger,
            }
        ),
        (on.FOUR_HEADS,),
    ),
    Fault(
        "tile-skipped",
        "geometry",
        "the second window of keys is left out",
        "lse",
        _seeing(_without_second_tile),
        (on.GAUSSIAN,),
    ),
    Fault(
        "offset-wrap",
        "geometry",
        f"the address of K wraps around after {WINDOW} tokens",
        "lse",
        _tokens(_wrapped, "k"),
        (on.GAUSSIAN,),
    ),
    Fault(
        "batch-stride",
        "geometry",
        "every batch reads the first one's V",
        "o",
        _tokens(_first_batch, "v"),
        (on.TWO_BATCHES,),
    ),
    Fault(
        "strides-ignored",
        "geometry",
        "tensors stored heads first are read as if tokens came first",
        "o",
        _tokens(_as_stored, "q", "k", "v", "do"),
        (on.STRIDED,),
    ),
)
"""Faults of operands, mask and addresses."""
