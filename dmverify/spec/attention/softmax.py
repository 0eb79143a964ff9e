"""Steps 1 to 3: logits, the reference that keeps exponentials in range, the exponentials.

    row-max      s = raw * scale;  b = max of the row;  e = exp(s - b)
    window-max   ct = (s_q * c) * s_k with c = fl(|scale| log2 e);
                 b = fma(max of the window's raw, ct, -8);  e = ex2(fma(raw, ct, -b))

In the second form the window's maximum becomes exactly 2^8 up to ex2's error, and b, one stored
number, cancels exactly against the b in the window's weight 2^(b - R). Masked keys give e = 0; a
row that sees no key of a window has b = 0 there and the window does not count for it.

The backward recomputes e from what the forward saved: row-max (b, l), window-max (M, l) with the
integer M = ceil(largest b) + 8, so that no logarithm is ever rounded into a probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from dmverify.spec.arithmetic.interface import Arithmetic, Enclosing
from dmverify.spec.attention.freedom import argument
from dmverify.spec.attention.operands import Head, Operand
from dmverify.spec.attention.products import constant, similarity
from dmverify.spec.contracts import Contract, Rows, Windows
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

OFFSET = 8.0  # a window's maximum is 2^8, so that 448 is never passed and small e keep their bits


@dataclass(frozen=True)
class Scores:
    """Step 1. What S = Q K^T gives before the softmax.

    Attributes:
        raw: Accumulators, (M, W, L).
        factor: raw * factor is the logit (base e, or base 2 in the window form), (M, W, 1).
        seen: numpy bool (M, W, L), static.
        live: numpy bool (M, W, 1): the row sees a key of the window.
        logits: raw * factor, where there are no windows: several steps read it.
    """

    raw: Array
    factor: Array
    seen: Array
    live: Array
    logits: Array | None


def scores(a: Arithmetic, contract: Contract, head: Head) -> Scores:
    """Step 1: raw scores with the factor that makes them logits."""
    if not isinstance(contract.schedule, Windows):
        raw, factor = similarity(a, contract, head.q, head.k)
        factor = a.mul(factor, constant(a, head.scale))
    else:
        scaled = Operand(head.q.codes, a.mul(head.q.scale, a.per_ln2(head.scale)))
        raw, factor = similarity(a, contract, scaled, head.k)
    seen = head.seen.reshape(raw.shape)
    logits = a.mul(raw, factor) if not isinstance(contract.schedule, Windows) else None
    return Scores(raw, factor, seen, seen.any(axis=2, keepdims=True), logits)


@rests_on("max-argument", "max-code-256")
def references(a: Arithmetic, contract: Contract, s: Scores) -> Array:
    """Step 2: b, (M, W, 1)."""
    lowest, nothing = constant(a, -math.inf), constant(a, 0.0)
    x = s.raw if s.logits is None else s.logits
    top = a.select(a.mask(s.live), a.max(a.select(a.mask(s.seen), x, lowest), 2), nothing)
    if isinstance(contract.schedule, Windows):
        top = a.select(a.mask(s.live), a.fma(top, s.factor, constant(a, -OFFSET)), nothing)
    return a.reference(top)


@rests_on("finite-arguments", "ex2-argument")
def exponentials(a: Arithmetic, contract: Contract, s: Scores, b: Array) -> Array:
    """Step 3: e relative to a reference b that broadcasts to (M, W, 1); 0 where masked."""
    if s.logits is not None:
        e = a.exp(_below(a, contract, s.logits, b, s.seen))
    else:
        e = a.exp2(a.fma(s.raw, s.factor, a.negate(b)))
    return a.select(a.mask(s.seen), e, constant(a, 0.0))


def _below(a: Arithmetic, contract: Contract, x: Array, top: Array, seen: Array) -> Array:
    """Logits relative to the row's maximum."""
    if a.encloses and isinstance(contract.schedule, Rows):
        return cast(Enclosing, a).below_maximum(x, top, seen)
    return argument(a, contract, x, top, seen)


def shares(a: Arithmetic, contract: Contract, s: Scores, b: Array, e: Array, total: Array) -> Array:
    """Step 7 in the form e / l, (M, W, L), e relative to b."""
    if not a.encloses or not isinstance(contract.schedule, Rows):
        return a.div(e, total)
    return cast(Enclosing, a).share(e, total, s.logits, b, s.seen)


def at_row_maximum(a: Arithmetic, s: Scores, b: Array, x: Array) -> Array:
    """x (M, W, L) at each row's largest logit: (M, 1)."""
    lowest = constant(a, -math.inf)
    windows = a.select(a.mask(s.live), b, lowest)
    return a.at_largest(x, windows, a.select(a.mask(s.seen), s.raw, lowest))
