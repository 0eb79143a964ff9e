"""Runs the steps of every head of a call in one interpretation.

Where a contract has windows the order of heads is part of the steps: dK and dV of a key head are
carried over its query heads in ascending order. Results come back as float32 outputs of the
contract's formats, with float64 values (and bounds, where the interpretation has them) beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.arithmetic.floating import Double
from dmverify.spec.arithmetic.interface import Arithmetic, Enclosing
from dmverify.spec.attention.choices import choices_of
from dmverify.spec.attention.internals import collect, gather
from dmverify.spec.attention.keys import enclose_centred_keys
from dmverify.spec.attention.num import Num, broadcast
from dmverify.spec.attention.operands import BlockScaled, Head, Prepared, prepare
from dmverify.spec.attention.pages import backward, forward
from dmverify.spec.attention.returned import returned
from dmverify.spec.attention.state import BackwardPass, ForwardPass
from dmverify.spec.attention.stores import STORED, store_of, stored
from dmverify.spec.attention.tokens import tokens_of
from dmverify.spec.case import F32, F64, Inputs, Internals, Outputs
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.exponents import max_shift
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

HEADROOM = 2.0
OPERANDS = frozenset({"operands"})
FORWARD = ("o", "lse")
TOKENS = ("dk", "dv")
NAMES = (*FORWARD, "dq", *TOKENS, "delta")
Keys: TypeAlias = tuple[BlockScaled, Num] | None


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
        internals: Whether to return the numbers in between, of both passes.
        given: o and lse that a kernel returned, for its backward to start from (``returned``).

    Raises:
        ContractError: If the interpretation is bits and the contract leaves an order open, or for
            ``given`` where the backward does not start from LSE.
        InputError: If the inputs hold what the contract forbids.
    """
    if arithmetic.exact_schedule:
        require_bits(contract)
    if given is not None:
        require_lse(contract)
    with _precision(arithmetic), np.errstate(all="ignore"):
        prepared = prepare(contract, problem, inputs, cast="operands" in arithmetic.casts)
        if caller_chooses(contract, arithmetic):
            prepared = replace(prepared, exponents=call_exponents(contract, problem, inputs))
        call = _Call(arithmetic, contract, prepared, internals, given)
        heads = [
            call.group(batch, kv_head)
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


def require_lse(contract: Contract) -> None:
    """Refuse a contract whose backward does not take P relative to LSE.

    Raises:
        ContractError: Its windows save an integer instead.
    """
    if isinstance(contract.schedule, Windows):
        raise ContractError(
            contract.name,
            rule="O and LSE can be given where the backward takes P = exp(S - LSE)",
            fix="use a contract whose schedule is no windows, or leave them out",
        )


def call_exponents(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, int]:
    """The powers of two that the caller of a per-tensor kernel chooses for what it stores.

    k of x is the largest integer <= 100 with 2 amax(|x|) 2^k <= 448, for those of o, dq, dk, dv
    and ds that the contract has it chosen for; ds is dS times the softmax scale (57,344 for an
    E5M2 dS). The amax is over the whole call, of these steps in float64 on its own operands. Half
    of the range is left for the kernel's errors. A trainer takes such scales from earlier steps;
    they are inputs of the kernel like the tensors.

    Args:
        contract: Gives the operands.
        problem: Sizes, mask, scale.
        inputs: Finite BF16 tensors.

    Returns:
        k by name. Not covered: an amax so near a power of two that two machines disagree.
    """
    run = interpret(contract, problem, inputs, Double(OPERANDS), internals=True)
    found = {**run.values, "ds": np.zeros(0)}
    if run.internals is not None:
        found["ds"] = run.internals.ds * abs(problem.scale)
    most = dict.fromkeys(found, E4M3.max_finite) | {"ds": choices_of(contract).ds_format.max_finite}
    names = [name for name in chosen_by_caller(contract) if name in found]
    largest = {name: HEADROOM * np.abs(found[name]).max(initial=0.0) for name in names}
    return {name: int(max_shift(np.asarray([x]), most[name])[0]) for name, x in largest.items()}


def chosen_by_caller(contract: Contract) -> tuple[str, ...]:
    """What a kernel's caller chooses a power of two for: outputs, and dS inside."""
    outputs = STORED if store_of(contract, STORED[0]).by_caller else ()
    return (*outputs, "ds") if contract.schedule.ds == "call-exponent" else outputs


def caller_chooses(contract: Contract, arithmetic: Arithmetic) -> bool:
    """Whether a kernel's caller chooses powers of two that this interpretation rounds to."""
    return bool(chosen_by_caller(contract) and arithmetic.casts - OPERANDS)


@dataclass(frozen=True)
class _Group:
    """One key head with its query heads."""

    rows: list[dict[str, Num]]
    tokens: dict[str, Num]
    internals: list[Internals]


@dataclass(frozen=True)
class _Call:
    """What is asked of every head."""

    a: Arithmetic
    contract: Contract
    prepared: Prepared
    internals: bool
    given: Mapping[str, F32] | None

    def group(self, batch: int, kv_head: int) -> _Group:
        """The steps of the query heads of a key head, in ascending order."""
        rows, kept = [], []
        tokens = tokens_of(self.a, self.contract, self.prepared)
        keys = key_sets(self.a, self.contract, self.prepared, (batch, kv_head))
        group = self.prepared.problem.group
        for q_head in range(kv_head * group, (kv_head + 1) * group):
            head = operands_of(self.a, self.contract, self.prepared, (batch, q_head), keys)
            tokens.next_head()
            fwd, bwd = steps_of(self.contract, head, self.given, (batch, q_head))
            rows.append(row_outputs(self.prepared, fwd, bwd))
            if bwd is None:
                continue
            tokens.take(head, bwd.cast)
            if self.internals:
                kept.append(collect(choices_of(self.contract), head, fwd, bwd))
        totals = zip(TOKENS, tokens.totals(), strict=True) if has_tokens(self.contract) else ()
        return _Group(rows, dict(totals), kept)


def key_sets(a: Arithmetic, contract: Contract, prepared: Prepared, at: tuple[Any, Any]) -> Keys:
    """Keys and their mean where they are sets, of a key head or of each in arrays of them."""

    def allowed() -> Keys:
        found = enclose_centred_keys(cast(Enclosing, a), contract, prepared, *at)
        if found is None or prepared.on_codes:
            return found
        return found[0].as_sets(), found[1]

    found: Keys = a.any_of(None, allowed)
    return found


def operands_of(
    a: Arithmetic, contract: Contract, prepared: Prepared, at: tuple[Any, Any], keys: Keys
) -> Head:
    """The operands of a query head, or of each in arrays of them."""
    head = prepared.head(a, *at)
    if keys is not None:
        head = replace(head, k=keys[0], k_mean=keys[1])
    if prepared.on_codes:
        return head
    formed = {name: getattr(head, name).with_numbers().as_sets() for name in ("q", "k", "v", "do")}
    return replace(head, **formed)


def steps_of(
    contract: Contract, head: Head, given: Mapping[str, F32] | None, at: tuple[Any, Any]
) -> tuple[ForwardPass, BackwardPass | None]:
    """Both passes, the backward from the O and LSE that were given, if any; None without one."""
    fwd = forward(contract, head)
    if not contract.gradients:
        return fwd, None
    if given is not None:
        fwd = returned(fwd, given, at)
    return fwd, backward(contract, head, fwd)


def names_of(contract: Contract) -> tuple[str, ...]:
    """The outputs that a contract has."""
    return NAMES if contract.gradients else FORWARD


def has_tokens(contract: Contract) -> bool:
    """Whether it has outputs of the keys, dK and dV."""
    return TOKENS[0] in names_of(contract)


def row_outputs(prepared: Prepared, fwd: ForwardPass, bwd: BackwardPass | None) -> dict[str, Num]:
    """Outputs of a head before their store, (M, D) and (M, 1)."""
    found = {"o": fwd.o32, "lse": fwd.lse}
    if bwd is None:
        return found
    sign = -1.0 if prepared.problem.scale < 0 else 1.0
    correction = broadcast(bwd.shift + bwd.delta, fwd.lse.shape)
    return found | {"dq": bwd.dq * sign, "delta": correction}


def _precision(arithmetic: Arithmetic) -> AbstractContextManager[None]:
    enter = getattr(arithmetic, "working_precision", None)
    return enter() if enter is not None else nullcontext()


def _assemble(a: Arithmetic, prepared: Prepared, groups: list[_Group]) -> Interpretation:
    problem = prepared.problem
    contract = prepared.contract
    names = names_of(contract)
    values = {name: _tensor(Num.float64, problem, groups, name) for name in names}
    dead = ~problem.mask().any(axis=1)
    values["lse"][..., dead] = -np.inf
    ends = _ends(a, problem, groups, dead, names)
    kept = [head for group in groups for head in group.internals]
    outputs = {n: stored(a, contract, n, x, prepared.exponents) for n, x in values.items()}
    return Interpretation(
        outputs=Outputs(**outputs),
        values=values,
        ends=ends,
        internals=gather(problem, kept) if kept else None,
        exponents=prepared.exponents if "o" in a.casts else {},
    )


def _ends(
    a: Arithmetic, problem: Problem, groups: list[_Group], dead: Array, names: Sequence[str]
) -> dict[str, tuple[F64, F64]]:
    """Lower and upper ends of every output before its store."""
    ends = getattr(a, "ends", None)
    if ends is None:
        return {}
    found: dict[str, tuple[F64, F64]] = {}
    for name in names:
        low = _tensor(lambda x: ends(x.array)[0], problem, groups, name)
        high = _tensor(lambda x: ends(x.array)[1], problem, groups, name)
        if name == "lse":
            low[..., dead], high[..., dead] = -np.inf, -np.inf
        found[name] = (low, high)
    return found


def _tensor(
    convert: Callable[[Num], F64], problem: Problem, groups: list[_Group], name: str
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
