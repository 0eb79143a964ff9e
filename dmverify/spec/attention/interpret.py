"""Runs the steps of every head of a call in one interpretation.

Where a contract has windows the order of heads is part of the steps: dK and dV of a key head are
carried over its query heads in ascending order. Results come back as float32 outputs of the
contract's formats, with float64 values (and bounds, where the interpretation has them) beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.arithmetic.floating import Double
from dmverify.spec.arithmetic.interface import Arithmetic, Enclosing
from dmverify.spec.attention.backward import Backward, backward, group_gradient, token_gradient
from dmverify.spec.attention.forward import Forward, forward
from dmverify.spec.attention.internals import collect, gather
from dmverify.spec.attention.keys import open_keys
from dmverify.spec.attention.operands import Prepared, prepare
from dmverify.spec.attention.products import constant
from dmverify.spec.attention.returned import returned
from dmverify.spec.case import F32, F64, Inputs, Internals, Outputs
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.exponents import fit
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

HEADROOM = 2.0
OPERANDS = frozenset({"operands"})
NAMES = ("o", "lse", "dq", "dk", "dv", "delta")
STORED_IN_BF16 = ("o", "dq", "dk", "dv")


@dataclass(frozen=True)
class Interpretation:
    """What the steps give.

    Attributes:
        outputs: In the contract's output formats (rounded only if the ``o`` cast is on).
        values: The same quantities in float64 before the outputs' store, by name.
        ends: Bounds of each value where the interpretation has them (``Exact``, ``Enclosure``).
        internals: Present if asked for.
        exponents: Powers of two that the caller of the kernel chose, by name.
    """

    outputs: Outputs
    values: dict[str, F64]
    ends: dict[str, tuple[F64, F64]]
    internals: Internals | None
    exponents: Mapping[str, int] = field(default_factory=dict)


def interpret(
    contract: Contract,
    problem: Problem,
    inputs: Inputs,
    arithmetic: Arithmetic,
    *,
    internals: bool = False,
    given: Mapping[str, F32] | None = None,
) -> Interpretation:
    """Attention forward and backward, every step of the contract, in one interpretation.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D).
        arithmetic: ``Exact``, ``Bits``, ``Single`` or ``Double``.
        internals: Whether to return the numbers in between.
        given: o and lse that a kernel returned, for its backward to start from (``returned``).

    Raises:
        ContractError: If the interpretation is bits and the contract leaves an order open.
        InputError: If the inputs hold what the contract forbids.
    """
    if arithmetic.exact_schedule:
        require_bits(contract)
    with _precision(arithmetic), np.errstate(all="ignore"):
        prepared = prepare(contract, problem, inputs, cast="operands" in arithmetic.casts)
        if caller_chooses(contract, arithmetic):
            prepared = replace(prepared, exponents=call_exponents(contract, problem, inputs))
        heads = [
            _group(arithmetic, contract, prepared, (batch, kv_head), internals, given)
            for batch in range(problem.batch)
            for kv_head in range(problem.kv_heads)
        ]
        return _assemble(arithmetic, prepared, heads)


def require_bits(contract: Contract) -> None:
    """Refuse a contract that has no bits.

    Raises:
        ContractError: It leaves an order open.
    """
    if not contract.bit_exact:
        raise ContractError(
            contract.name,
            rule="bits are defined only where the contract states every order",
            fix="use the contract 'bundled', or an interpretation with bounds",
        )


def call_exponents(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, int]:
    """The powers of two that the caller of a per-tensor kernel chooses for what it stores.

    k of x is the largest integer <= 100 with 2 amax(|x|) 2^k <= 448, for x in o, dq, dk, dv, and
    ds, which is dS times the softmax scale; the amax is over the whole call, of these steps in
    float64 on the contract's own operands. Half of E4M3's range is left for the kernel's errors. A
    trainer takes such scales from earlier steps; they are inputs of the kernel like the tensors.

    Args:
        contract: Gives the operands.
        problem: Sizes, mask, scale.
        inputs: Finite BF16 tensors.

    Returns:
        k by name. Not covered: an amax so near a power of two that two machines disagree.
    """
    run = interpret(contract, problem, inputs, Double(OPERANDS), internals=True)
    found = {name: run.values[name] for name in STORED_IN_BF16}
    found["ds"] = np.zeros(0)
    if run.internals is not None:
        found["ds"] = run.internals.ds * abs(problem.scale)
    largest = {name: np.abs(x).max(initial=0.0) for name, x in found.items()}
    return {name: int(fit(np.asarray([HEADROOM * x]))[0]) for name, x in largest.items()}


def caller_chooses(contract: Contract, arithmetic: Arithmetic) -> bool:
    """Whether a kernel's caller chooses powers of two that this interpretation rounds to."""
    chosen = "call-exponent" in (contract.store, contract.schedule.ds)
    return chosen and bool(arithmetic.casts - OPERANDS)


@dataclass(frozen=True)
class _Group:
    """One key head with its query heads."""

    rows: list[dict[str, Array]]
    tokens: dict[str, Array]
    internals: list[Internals]


def _group(
    a: Arithmetic,
    contract: Contract,
    prepared: Prepared,
    at: tuple[int, int],
    internals: bool,
    given: Mapping[str, F32] | None,
) -> _Group:
    batch, kv_head = at
    zero = constant(a, 0.0)[0]
    dk, dv = zero, zero
    rows, kept, weights, gradients = [], [], [], []
    group = prepared.problem.group
    keys = None
    if a.encloses:
        keys = open_keys(cast(Enclosing, a), contract, prepared, batch, kv_head)
    for q_head in range(kv_head * group, (kv_head + 1) * group):
        head = prepared.head(a, batch, q_head)
        head = head if keys is None else replace(head, k=keys[0], k_mean=keys[1])
        fwd = forward(a, contract, head)
        if given is not None:
            fwd = returned(a, fwd, given, (batch, q_head))
        bwd = backward(a, contract, head, fwd)
        if isinstance(contract.schedule, Windows):
            dv = token_gradient(a, contract, bwd.cast.p, head.do, head.seen, dv)
            dk = token_gradient(a, contract, bwd.cast.ds, head.q, head.seen, dk)
        else:
            weights.append([(bwd.cast.p, head.do)])
            gradients.append([(bwd.cast.ds, head.q)])
        rows.append(row_outputs(a, prepared, fwd, bwd))
        if internals:
            kept.append(collect(a, contract, head, fwd, bwd))
    factor = constant(a, abs(prepared.problem.scale))[0]
    if isinstance(contract.schedule, Windows):
        dk = a.mul(dk, factor)
    else:
        dv = group_gradient(a, contract, weights, constant(a, 1.0)[0])
        dk = group_gradient(a, contract, gradients, factor)
    return _Group(rows, {"dk": dk, "dv": dv}, kept)


def row_outputs(a: Arithmetic, prepared: Prepared, fwd: Forward, bwd: Backward) -> dict[str, Array]:
    """Outputs of a head before their store, (M, D) and (M, 1)."""
    correction = a.broadcast(a.add(bwd.shift, bwd.delta), fwd.lse.shape)
    sign = constant(a, -1.0 if prepared.problem.scale < 0 else 1.0)[0]
    return {
        "o": fwd.o32,
        "lse": fwd.lse,
        "dq": a.mul(bwd.dq, sign),
        "delta": correction,
    }


def _precision(arithmetic: Arithmetic) -> AbstractContextManager[None]:
    enter = getattr(arithmetic, "working_precision", None)
    return enter() if enter is not None else nullcontext()


def _assemble(a: Arithmetic, prepared: Prepared, groups: list[_Group]) -> Interpretation:
    problem = prepared.problem
    values = {name: _tensor(a.float64, problem, groups, name) for name in NAMES}
    dead = ~problem.mask().any(axis=1)
    values["lse"][..., dead] = -np.inf
    ends = _ends(a, problem, groups, dead)
    kept = [head for group in groups for head in group.internals]
    kept_in_e4m3 = prepared.exponents if "o" in a.casts else {}
    outputs = {
        n: _e4m3(x, kept_in_e4m3[n]) if n in kept_in_e4m3 else stored(a, n, x)
        for n, x in values.items()
    }
    return Interpretation(
        outputs=Outputs(**outputs),
        values=values,
        ends=ends,
        internals=gather(problem, kept) if kept else None,
        exponents=kept_in_e4m3,
    )


def _ends(
    a: Arithmetic, problem: Problem, groups: list[_Group], dead: Array
) -> dict[str, tuple[F64, F64]]:
    """Lower and upper ends of every output before its store."""
    ends = getattr(a, "ends", None)
    if ends is None:
        return {}
    found: dict[str, tuple[F64, F64]] = {}
    for name in NAMES:
        low = _tensor(lambda x: ends(x)[0], problem, groups, name)
        high = _tensor(lambda x: ends(x)[1], problem, groups, name)
        if name == "lse":
            low[..., dead], high[..., dead] = -np.inf, -np.inf
        found[name] = (low, high)
    return found


def stored(a: Arithmetic, name: str, x: F64) -> Array:
    """O and the gradients are stored in BF16; rows stay float32."""
    single = x.astype(np.float32)
    narrow = name in STORED_IN_BF16 and "o" in a.casts
    return BF16.round(single, saturate=False) if narrow else single


def _e4m3(x: F64, exponent: int) -> Array:
    """E4M3 times the power of two that the caller chose."""
    codes = E4M3.round((x * 2.0**exponent).astype(np.float32), saturate=True)
    return codes * np.float32(2.0**-exponent)


def _tensor(
    convert: Callable[[Array], F64], problem: Problem, groups: list[_Group], name: str
) -> F64:
    """(B, N, H, D) or (B, H, N) from per-head arrays, padding cut off."""
    shape = problem.shapes()[name]
    per_token = name in ("dk", "dv")
    sources = [g.tokens for g in groups] if per_token else [r for g in groups for r in g.rows]
    length = problem.keys if per_token else problem.queries
    rows = [convert(source[name])[:length] for source in sources]
    if not rows:
        return np.zeros(shape)
    count = len(rows) // problem.batch
    stacked = np.stack(rows).reshape(problem.batch, count, length, rows[0].shape[-1])
    return np.asarray(stacked[..., 0] if len(shape) == 3 else stacked.swapaxes(1, 2))
