"""The ledger's terms and their theorems, on rows of every regime; see ``ties``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dmverify.proofs import tie_values as values
from dmverify.proofs.tie_rows import REGIMES, ROWS, magnitudes
from dmverify.proofs.ties import Case, Tie, Uses
from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.contracts import get_contract as _form
from dmverify.spec.ledger.bounds import cast, correction, forward, softmax
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes, dominated, sum_error, total
from dmverify.spec.ledger.bounds.tensor_core import chain_error

Code = Callable[[Magnitudes], F64]
Values = Callable[[Magnitudes, int], Uses]


def _on(
    contract: Contract, evaluate: Code, uses: Values, regimes: tuple[str, ...] = ("ordinary",)
) -> Callable[[], Iterator[Case]]:
    """Every row of some regimes."""

    def cases() -> Iterator[Case]:
        for regime in regimes:
            sizes = magnitudes(contract, REGIMES[regime])
            coded = np.broadcast_to(evaluate(sizes), (ROWS,))
            for i in range(ROWS):
                yield float(coded[i]), uses(sizes, i)

    return cases


def _chain(sizes: Magnitudes) -> F64:
    """The tensor core's bound of each row of dO against the first row of V."""
    block = sizes.block
    x, y = (np.tile(np.abs(z), 2) for z in (block.do, block.v[:1]))  # two instructions
    floors = {"x_floor": np.full(len(x), 2.0**-6), "y_floor": np.full(1, 2.0**-6)}
    return np.asarray(chain_error(x, y, **floors)[:, 0])


def _dominated(sizes: Magnitudes) -> F64:
    return dominated(sizes.block.p) * total(sizes.block.p)


def _any_sum(sizes: Magnitudes) -> F64:
    return sum_error(sizes) * total(sizes.block.p)


_UNDERFLOW = ("ordinary", "underflow")
_ASSOCIATED = _form("article", delta="associated", normaliser="codes")

TIES: tuple[Tie, ...] = (
    Tie(
        "sum of P, any order",
        "spec.ledger.bounds.magnitudes:sum_error",
        "sum_any_tree",
        _on(_form("article"), _any_sum, values.summed),
    ),
    Tie(
        "sum of P, stated order",
        "spec.ledger.bounds.magnitudes:sum_error",
        "stated_sum",
        _on(_form("bundled"), _any_sum, values.summed),
    ),
    Tie(
        "sum with one large term",
        "spec.ledger.bounds.magnitudes:dominated",
        "dominated",
        _on(_form("article"), _dominated, values.largest_first, ("ordinary", "sharp")),
    ),
    Tie(
        "match, any order",
        "spec.ledger.bounds.correction:match_bound",
        "match_any_order",
        _on(_form("article"), correction.match_bound, values.matched, _UNDERFLOW),
    ),
    Tie(
        "match, windows",
        "spec.ledger.bounds.correction:match_bound",
        "match_reciprocal",
        _on(_form("bundled"), correction.match_bound, values.reciprocal, _UNDERFLOW),
    ),
    Tie(
        "rec",
        "spec.ledger.bounds.correction:rec_bound",
        "presented_once",
        _on(
            _form("article"),
            correction.rec_bound,
            values.presented,
            ("presented", "presented, tiny P"),
        ),
    ),
    Tie(
        "elem",
        "spec.ledger.bounds.correction:elem_bound",
        "elem_two_roundings",
        _on(_form("article"), correction.elem_bound, values.elem, _UNDERFLOW),
    ),
    Tie(
        "elem, shifted",
        "spec.ledger.bounds.correction:elem_bound",
        "elem_three_roundings",
        _on(
            _form("article", delta="shifted"),
            correction.elem_bound,
            values.elem,
            (*_UNDERFLOW, "delta far", "delta near"),
        ),
    ),
    Tie(
        "balance, renormalized",
        "spec.ledger.bounds.correction:balance_bound",
        "balance_renormalized",
        _on(
            _form("article", delta="renormalized"),
            correction.balance_bound,
            values.balance,
            _UNDERFLOW,
        ),
    ),
    Tie(
        "balance, shifted",
        "spec.ledger.bounds.correction:balance_bound",
        "balance_shifted",
        _on(
            _form("article", delta="shifted"), correction.balance_bound, values.balance, _UNDERFLOW
        ),
    ),
    Tie(
        "norm, rows",
        "spec.ledger.bounds.softmax:norm_bound",
        "norm_coded",
        _on(_form("article"), softmax.norm_bound, values.norm),
    ),
    Tie(
        "norm, windows",
        "spec.ledger.bounds.softmax:norm_bound",
        "norm_coded",
        _on(_form("bundled"), softmax.norm_bound, values.norm, ("ordinary", "sharp")),
    ),
    Tie(
        "prob, l of unrounded e",
        "spec.ledger.bounds.softmax:prob_bound",
        "prob_unrounded",
        _on(
            _form("article", delta="stale"),
            softmax.prob_bound,
            values.prob,
            ("ordinary", "sharp"),
        ),
    ),
    Tie(
        "code of P",
        "spec.ledger.bounds.softmax:code_error",
        "code_near",
        _on(
            _form("article", delta="stale"),
            lambda sizes: softmax.code_error(sizes)[:, 1],
            values.second_code,
            ("ordinary", "vanishing P"),
        ),
    ),
    Tie(
        "prob, associated",
        "spec.ledger.bounds.softmax:prob_bound",
        "prob_associated",
        _on(_ASSOCIATED, softmax.prob_bound, values.own_prob, ("ordinary", "tiny P")),
    ),
    Tie(
        "norm, associated",
        "spec.ledger.bounds.softmax:norm_bound",
        "norm_associated",
        _on(_ASSOCIATED, softmax.norm_bound, values.own_norm),
    ),
    Tie(
        "prob, l of codes",
        "spec.ledger.bounds.softmax:prob_bound",
        "prob_codes",
        _on(
            _form("article", delta="stale", normaliser="codes"),
            softmax.prob_bound,
            values.prob,
            ("ordinary", "sharp"),
        ),
    ),
    Tie(
        "prob, windows",
        "spec.ledger.bounds.softmax:prob_bound",
        "prob_codes",
        _on(
            _form("bundled", delta="stale"), softmax.prob_bound, values.prob, ("ordinary", "sharp")
        ),
    ),
    Tie(
        "out",
        "spec.ledger.bounds.forward:out_bound",
        "bf16_half_unit",
        _on(
            _form("article", delta="stale"),
            forward.out_bound,
            values.out,
            ("ordinary", "tiny output"),
        ),
    ),
    Tie(
        "dot",
        "spec.ledger.bounds.forward:dot_bound",
        "channel_dot",
        _on(
            _form("article", delta="stale"), forward.dot_bound, values.dot, ("ordinary", "tiny dO")
        ),
    ),
    Tie(
        "grad",
        "spec.ledger.bounds.forward:grad_bound",
        "grad_known",
        _on(_form("article", delta="stale"), forward.grad_bound, values.grad),
    ),
    Tie(
        "accdP",
        "spec.ledger.bounds.forward:accdp_bound",
        "rounded_operands",
        _on(
            _form("article", delta="stale"),
            forward.accdp_bound,
            values.accdp,
            ("ordinary", "tiny operands"),
        ),
    ),
    Tie(
        "acc",
        "spec.ledger.bounds.forward:acc_bound",
        "rounded_quotient",
        _on(
            _form("article", delta="stale"),
            forward.acc_bound,
            values.acc,
            ("ordinary", "tiny values"),
        ),
    ),
    Tie(
        "tensor core, natural order",
        "spec.ledger.bounds.tensor_core:chain_error",
        "natural_order",
        _on(_form("bundled"), _chain, values.instructions, ("ordinary",)),
    ),
    Tie(
        "cast, nearest",
        "spec.ledger.bounds.cast:cast_bound",
        "nearest_known",
        _on(_form("article"), cast.cast_bound, values.nearest, ("one tile", "small dS", "tiny dS")),
    ),
    Tie(
        "cast, zero-sum",
        "spec.ledger.bounds.cast:cast_bound",
        "zero_sum_scaled",
        _on(_form("article", ds_cast="zero-sum"), cast.cast_bound, values.zero_sum, ("one tile",)),
    ),
)
"""Bounds that are a theorem's right side."""
