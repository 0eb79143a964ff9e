"""How far from exact attention a contract's outputs are, typically: an estimate, and no bound.

Operands have the errors of their own casts, which are known; P and dS are rounded by chance, to
first order (``arithmetic.tangent``), in the steps of the contract themselves; the outputs' store
adds its own rounding. Of each output

    typical   root mean square of the errors over that of the output
    most      95 % of the elements err less, in the same unit

LSE is a logarithm: its errors are in nats. Elements that are not finite take no part.

| no estimate where | because |
|---|---|
| a cast overflows | what it loses is not what a rounding loses |
| casts of P or dS themselves, of codes or ties say, and casts by chance differ by more than | |
| ``CHANCE`` in their root mean square | the premise fails |
| an operand takes fewer than ``VALUES`` magnitudes, or a row of it occurs ``OFTEN`` times | one |
| | rounding counts as often |
| LSE errs by more than ``LOGITS``, an output by more than ``LARGE`` | the second order counts |
| half the variance of a row's logit errors is more than ``SECOND`` of LSE's error: LSE alone | |
| | it is LSE's error in second order |
| an output has fewer numbers than ``FEW``, or is 0 | chance has no mean |
| an output errs by less than ``LEAST`` | float32 decides |
| dQ or dK err by less than ``CANCELLED`` of what dP, K or Q and the scale make | the same |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dmverify.spec.arithmetic.tangent import F64, Dual, Tangent, constant, unit
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled, Head, Prepared, prepare
from dmverify.spec.attention.run import (
    TOKENS,
    call_exponents,
    caller_chooses,
    has_tokens,
    row_outputs,
    steps_of,
)
from dmverify.spec.attention.stores import store_of
from dmverify.spec.attention.tokens import tokens_of
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16, FP32, Element
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

OPERANDS = ("q", "k", "v", "do")
OUTPUTS = ("o", "lse", "dq", "dk", "dv")
MOST = 0.95
LOGITS = 0.3  # of LSE, in nats: beyond it exp(x) - 1 - x is 15 % of x
SECOND = 0.3
CANCELLED = 2.0**-20
LARGE = 0.5  # of an output's root mean square
CHANCE = 1.5
OFTEN, VALUES = 4, 16
FEW = 256
WITHIN = 1.0625  # of the largest number: what rounds back to it
LEAST = 2.0**-14  # a cast to BF16 errs by 2^-10
NUMBERS = 1 << 16  # of an output that a typical error is taken over, in several draws


@dataclass(frozen=True)
class Expected:
    """The error of one output.

    Attributes:
        typical: See the module; NaN without an estimate.
        most: The same.
        reason: Why there is no estimate, in words; else empty.
    """

    typical: float
    most: float
    reason: str = ""


def expected(
    contract: Contract, problem: Problem, *, inputs: Inputs, seed: int = 0
) -> dict[str, Expected]:
    """The typical errors of every output of a contract on given inputs.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D).
        seed: Of the chances.
    """
    if not all(np.isfinite(x).all() for _, x in inputs.items()):
        return dict.fromkeys(OUTPUTS, _none("the inputs are not finite"))
    least = min(x.size for _, x in inputs.items())
    if not least:
        return dict.fromkeys(OUTPUTS, _none("there are no numbers"))
    draws = max(1, min(8, NUMBERS // least))
    values: dict[str, list[F64]] = {name: [] for name in OUTPUTS}
    errors: dict[str, list[F64]] = {name: [] for name in OUTPUTS}
    a = Tangent(seed)
    with np.errstate(all="ignore"):
        for _ in range(draws):
            for name, x in _run(a, contract, problem, inputs):
                values[name].append(x.value.reshape(-1))
                errors[name].append(x.slope.reshape(-1))
    if reason := _failing(a, inputs):
        return dict.fromkeys(OUTPUTS, _none(reason))
    found = {name: _expected(name, values[name], errors[name], draws) for name in OUTPUTS}
    if not has_tokens(contract):
        found |= dict.fromkeys(OUTPUTS[2:], _none("the contract has no backward pass"))
    if found["lse"].typical > LOGITS:
        reason = f"logits err by more than {LOGITS} nats, where the second order counts"
        return dict.fromkeys(OUTPUTS, _none(reason))
    for name, other in (("dq", "k"), ("dk", "q")):
        if found[name].typical * _size(values[name]) < CANCELLED * _product(problem, inputs, other):
            found[name] = _none("dP and delta cancel: float32 decides")
    if a.second > SECOND * found["lse"].typical:
        found["lse"] = _none("logits of a row err so much that the second order counts")
    return found


def _failing(a: Tangent, inputs: Inputs) -> str:
    """Which premise fails, in words; empty if none does."""
    if a.overflows:
        return "a cast overflows"
    for site, (actual, chance) in a.tally.items():
        if not chance / CHANCE**2 <= actual <= chance * CHANCE**2:
            return f"{site} does not round by chance"
    for name, x in inputs.items():
        if x.size >= FEW and np.unique(np.abs(x)).size < VALUES:
            return f"{name} takes few values"
        rows = np.ascontiguousarray(x).reshape(-1, max(x.shape[-1], 1))
        if rows.size and np.unique(rows, axis=0, return_counts=True)[1].max() >= OFTEN:
            return f"rows of {name} occur again and again"
    return ""


def _run(
    a: Tangent, contract: Contract, problem: Problem, inputs: Inputs
) -> Iterator[tuple[str, Dual]]:
    """Every output of every head, with its store."""
    prepared, operands = _operands(a, contract, problem, inputs)
    live = problem.mask().any(axis=1)
    for batch in range(problem.batch):
        for kv_head in range(problem.kv_heads):
            tokens = tokens_of(a, contract, prepared)
            for head in range(kv_head * problem.group, (kv_head + 1) * problem.group):
                given = _head(a, contract, prepared, operands, (batch, head))
                tokens.next_head()
                fwd, bwd = steps_of(contract, given, None, (batch, head))
                if bwd is not None:
                    tokens.take(given, bwd.cast)
                rows = row_outputs(prepared, fwd, bwd)
                for name in (each for each in OUTPUTS if each in rows):
                    found = _stored(a, prepared, name, rows[name], problem.queries)
                    yield name, found[live] if name == "lse" else found
            totals = zip(TOKENS, tokens.totals(), strict=True) if has_tokens(contract) else ()
            for name, x in totals:
                yield name, _stored(a, prepared, name, x, problem.keys)


@dataclass(frozen=True)
class _Operands:
    """Inputs, keys centred, with the errors of their casts, by name, (B, H, N, D).

    ``turned`` are those that are cast once more, down their columns.
    """

    plain: dict[str, Dual]
    turned: dict[str, Dual]


def _operands(
    a: Tangent, contract: Contract, problem: Problem, inputs: Inputs
) -> tuple[Prepared, _Operands]:
    exact = prepare(contract, problem, inputs, cast=False)
    coded = prepare(contract, problem, inputs, cast=True)
    if caller_chooses(contract, a):
        coded = replace(coded, exponents=call_exponents(contract, problem, inputs))
    found = _Operands({}, {})
    for name in OPERANDS:
        value = exact.tensors[name][0].astype(np.float64)
        if name == "k":
            real = np.arange(value.shape[2])[:, None] < problem.keys
            value = np.where(real, value - coded.k_mean, 0.0)
        element = contract.element(name)
        if element is BF16:
            found.plain[name] = constant(value)
            continue
        found.plain[name] = _cast(a, value, coded.tensors[name], element)
        if name in coded.turned:
            found.turned[name] = _cast(a, value, coded.turned[name], element)
    return coded, found


def _cast(a: Tangent, value: F64, coded: tuple[Array, Array], element: Element) -> Dual:
    """An operand with the error that its cast makes."""
    codes, scale = (x.astype(np.float64) for x in coded)
    a.overflows |= bool((np.abs(value / scale) > element.max_finite * WITHIN).any())
    return Dual(value, codes * scale - value)


def _head(
    a: Tangent, contract: Contract, prepared: Prepared, operands: _Operands, at: tuple[int, int]
) -> Head:
    """The operands of a query head: numbers with scale 1."""
    batch, head = at
    kv_head = head // prepared.problem.group
    place = {"q": head, "do": head, "k": kv_head, "v": kv_head}

    def scaled(found: dict[str, Dual], name: str) -> BlockScaled:
        codes = Num(found[name][batch, place[name]], a)
        return BlockScaled(codes, Num(a.array(np.ones((codes.shape[0], 1))), a))

    def operand(name: str) -> BlockScaled:
        turned = scaled(operands.turned, name) if name in operands.turned else None
        whole = replace(scaled(operands.plain, name), turned=turned)
        return whole if prepared.on_codes else whole.with_numbers()

    q, k, v, do = map(operand, OPERANDS)
    return replace(prepared.head(a, *at), q=q, k=k, v=v, do=do)


def _stored(a: Tangent, prepared: Prepared, name: str, x: Num, length: int) -> Dual:
    """An output with the rounding of its store, padding cut off."""
    found: Dual = x.array[:length]
    store = store_of(prepared.contract, name)
    kind, power = store.fmt, 2.0 ** prepared.exponents.get(name, 0)
    if kind is FP32:
        return found
    scaled = found.value * power
    to = kind.round(scaled.astype(np.float32), saturate=True).astype(np.float64)
    rounding = a.rounded(scaled, unit(scaled, kind), site=f"the store of {name}", to=to)
    return Dual(found.value, found.slope + rounding.slope / power)


def _size(values: Sequence[F64]) -> float:
    """Root mean square of what is finite."""
    value = np.concatenate([*values, []])
    value = value[np.isfinite(value)]
    return float(np.sqrt(np.mean(value**2))) if value.size else 0.0


def _product(problem: Problem, inputs: Inputs, other: str) -> float:
    """The size of dP times an operand and the softmax scale."""
    of = {name: _size([x.astype(np.float64).reshape(-1)]) for name, x in inputs.items()}
    factors = (of["do"], of["v"], of[other], math.sqrt(problem.head_dim), abs(problem.scale))
    return math.prod(factors)


def _expected(name: str, values: list[F64], errors: list[F64], draws: int) -> Expected:
    value, error = np.concatenate([*values, []]), np.abs(np.concatenate([*errors, []]))
    known = np.isfinite(value) & np.isfinite(error)
    value, error = value[known], error[known]
    size = 1.0 if name == "lse" else _size([value])
    if not size or value.size < FEW * draws:
        return _none("the output is 0, or has too few finite numbers")
    typical = float(np.sqrt(np.mean(error**2))) / size
    if typical > LARGE and name != "lse":
        return _none(f"it errs by more than {LARGE} of its size, where the second order counts")
    if typical < LEAST:
        return _none("casts hardly reach it: float32 decides")
    return Expected(typical, float(np.quantile(error, MOST)) / size)


def _none(reason: str) -> Expected:
    return Expected(float("nan"), float("nan"), reason)
