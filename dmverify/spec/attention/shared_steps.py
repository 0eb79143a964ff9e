"""Steps that the schedules share: masked maxima, the LSE's last term, products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmverify.spec.attention.choices import Choices
from dmverify.spec.attention.num import (
    Flags,
    Num,
    broadcast,
    concatenate,
    dot,
    from_zero,
    largest,
    where,
)
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.sums import Order
from dmverify.spec.lemmas import rests_on

Part = tuple[BlockScaled, BlockScaled]
"""P or dS of a query head, and dO or Q."""


def masked_maximum(x: Num, seen: Flags, live: Flags) -> Num:
    """Maximum of the seen x along the last axis, 0 where nothing is."""
    return where(live, largest(where(seen, x, -math.inf), len(x.shape) - 1), 0.0)


@rests_on("lse-store")
def with_mean(choices: Choices, head: Head, order: Order, lse: Num) -> Num:
    """LSE of the call's own keys: what centring took off the logits is given back."""
    if not choices.centred:
        return lse
    mean = broadcast(head.k_mean, head.q_input.shape)
    return lse + order.over_channels(head.q_input, mean) * head.scale


def query_gradient(head: Head, ds: BlockScaled) -> Num:
    """dQ, one sum over the keys: (M, D)."""
    return from_zero(dot(by_rows(ds.numbers), head.k.down.numbers.T, over="tokens")) * head.scale


def token_gradient(parts: Sequence[Part], factor: Num) -> Num:
    """dK or dV of a key head, one sum over the queries of all its query heads: (N, D)."""
    return dot(*token_operands(parts), over="heads") * factor


def token_operands(parts: Sequence[Part]) -> tuple[Num, Num]:
    """The operands of that dot: (N, M) and (D, M), M the queries of all parts."""
    weights = concatenate([by_rows(x.down.numbers).T for x, _ in parts], 1)
    return weights, concatenate([rows.down.numbers for _, rows in parts], 0).T


def by_rows(x: Num) -> Num:
    """(M, G, tile) as (M, N)."""
    return x.reshape(len(x), -1)
