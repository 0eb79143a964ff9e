"""Step 8: the softmax correction delta, six ways, and the shift that one of them uses.

    stale         <dO, O>            O as stored, dO as it came in
    consistent    <dO^, O>           dO^ as dP uses it
    matched       sum_j P dP         the very operands of the gradient
    renormalized  (sum_j P dP) / (sum_j P)
    shifted       d0 = dP at the first of the row's largest logits, which in a row that sees no key
                  is key 0; (sum_j P (dP - d0)) / (sum_j P); dS subtracts d0 first
    associated    <dO^, O32>         O before its store; dS then uses the forward's rounded P

Each returns (shift, delta), (M, 1) each; dS = P ((dP - shift) - delta). Sources: stale,
consistent and matched: Tang et al., arXiv 2609.37852, section 3 and appendix C.4; the others are
this project's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from dmverify.spec.arithmetic.interface import Arithmetic, Enclosing
from dmverify.spec.attention.forward import Forward
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.products import constant, keep, one
from dmverify.spec.attention.softmax import at_row_maximum
from dmverify.spec.attention.sums import channel_dot, combine, row_dot, row_sum
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array


@dataclass(frozen=True)
class Row:
    """What the backward knows of its rows when delta is formed.

    Attributes:
        weight: P times whatever ``scale`` still lacks, (M, W, L).
        scale: weight * scale is P, (M, 1) or 1.
        raw: dP before its factor, (M, W, L).
        factor: raw * factor is dP, (M, W, 1) or 1.
        there: numpy bool, the windows that the row visits (``visited``), (M, W, 1).
    """

    weight: Array
    scale: Array
    raw: Array
    factor: Array
    there: Array


Rule = Callable[[Arithmetic, Contract, Head, Forward, Row], tuple[Array, Array]]


def delta(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    """The pair (shift, delta) of the contract's mode."""
    return DELTA_RULES[contract.delta](a, contract, head, fwd, row)


def _stale(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    return _zero(a), channel_dot(a, contract, head.do_input, fwd.o)


def _consistent(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    return _zero(a), _gradient_dot(a, contract, head, fwd.o)


def _associated(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    return _zero(a), _gradient_dot(a, contract, head, fwd.o32)


def _matched(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    return _zero(a), a.mul(_weighted(a, contract, row, row.raw, row.factor), row.scale)


def _renormalized(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    total = _weighted(a, contract, row, row.raw, row.factor)
    return _zero(a), _over_weights(a, contract, fwd, row, total)


@rests_on("shifted-dominance")
def _shifted(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, row: Row
) -> tuple[Array, Array]:
    shift = at_row_maximum(a, fwd.scores, fwd.b, a.mul(row.raw, row.factor))
    # The product is rounded before the shift is taken off, as the shift was: the reference key
    # leaves exactly 0, and a one-hot row of dS vanishes.
    moved = a.sub(a.mul(row.raw, row.factor), shift[:, :, None])
    total = _weighted(a, contract, row, moved, one(a))
    return shift, _over_weights(a, contract, fwd, row, total)


DELTA_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "stale": _stale,
        "consistent": _consistent,
        "matched": _matched,
        "renormalized": _renormalized,
        "shifted": _shifted,
        "associated": _associated,
    }
)


def _zero(a: Arithmetic) -> Array:
    return constant(a, 0.0)[0]


def _gradient_dot(a: Arithmetic, contract: Contract, head: Head, o: Array) -> Array:
    """<dO^, o> in the contract's operand form."""
    if not isinstance(contract.schedule, Windows):
        return channel_dot(a, contract, head.do.dequantised(a), o)
    return a.mul(channel_dot(a, contract, head.do.codes, o), head.do.scale)


def _weighted(a: Arithmetic, contract: Contract, row: Row, x: Array, factor: Array) -> Array:
    """sum of weight * x * factor over the row: (M, 1)."""
    total = _total(a, row_dot(a, contract, row.weight, x), factor, row.there)
    if not a.encloses:
        return total
    mass = row_dot(a, contract, row.weight, a.absolute(x))
    return cast(Enclosing, a).within(total, _total(a, mass, factor, row.there))


def _total(a: Arithmetic, partial: Array, factor: Array, there: Array) -> Array:
    """Visited windows chained in ascending order, lane by lane, then the lanes combined: (M, 1)."""
    lanes = constant(a, 0.0)[0]
    for w in range(partial.shape[1]):
        step = factor[:, w] if factor.shape[1] > 1 else factor[:, 0]
        lanes = keep(a, there[:, w], a.fma(partial[:, w], step, lanes), lanes)
    return combine(a, lanes)


def _over_weights(a: Arithmetic, contract: Contract, fwd: Forward, row: Row, total: Array) -> Array:
    """total / sum of the weights; 0 on dead rows.

    With windows a dead row is told by its sum of weights, which is 0, so that it stays 0 beside a
    hidden NaN that its tile visits. Without, a dense kernel may divide that NaN.
    """
    weights = _total(a, row_sum(a, contract, row.weight), one(a), row.there)
    ratio = a.div(total, a.select(a.mask(fwd.live), weights, one(a)[0]))
    if not isinstance(contract.schedule, Windows):
        return ratio
    return a.select(a.mask(fwd.live), ratio, constant(a, 0.0)[0])
