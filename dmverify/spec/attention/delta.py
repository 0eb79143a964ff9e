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
from types import MappingProxyType

from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.state import ForwardPass, Row
from dmverify.spec.attention.sums import Order
from dmverify.spec.lemmas import rests_on

Rule = Callable[[Order, Head, ForwardPass, Row], tuple[Num, Num]]


def delta(mode: str, order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    """The pair (shift, delta) of a mode."""
    return DELTA_RULES[mode](order, head, fwd, row)


def _stale(order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    return fwd.o.of(0.0), order.over_channels(head.do_input, fwd.o)


def _consistent(order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    return fwd.o.of(0.0), order.with_operand(head.do, fwd.o)


def _associated(order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    return fwd.o.of(0.0), order.with_operand(head.do, fwd.o32)


def _matched(order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    return fwd.o.of(0.0), order.of_products(row.p, row.acc, row.scale) * row.p_scale


def _renormalized(order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    numerator = order.of_products(row.p, row.acc, row.scale)
    return fwd.o.of(0.0), order.ratio(numerator, row.p, fwd.live)


@rests_on("shifted-dominance")
def _shifted(order: Order, head: Head, fwd: ForwardPass, row: Row) -> tuple[Num, Num]:
    # dP is rounded before the shift is taken off, as the shift was: the reference key leaves
    # exactly 0, and a one-hot row of dS vanishes.
    shift = order.at_maximum(fwd.scores, fwd.b, row.dp)
    moved = row.dp - order.beside_scores(shift)
    numerator = order.of_products(row.p, moved, moved.of(1.0))
    return shift, order.ratio(numerator, row.p, fwd.live)


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
