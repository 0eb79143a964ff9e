"""Whole rows of the ledger against the theorems that lead from the operands to their bound.

What a row's terms add up to, as verdicts use them, and the theorem on that delta: each summand is
one term, so that a term left out, or half of it, is noticed. After the cast that and the cast's own
bound. Contracts of whole rows; see ``ties`` and ``ties_ledger``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from dmverify.proofs.tie_rows import REGIMES, magnitudes
from dmverify.proofs.tie_values import ONE, exact, row_sum, zero_sum
from dmverify.proofs.ties import Case, Tie
from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.contracts import get_contract as _form
from dmverify.spec.ledger.bounds import BOUNDS
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes
from dmverify.spec.ledger.terms import TERMS_OF_MODE

CODE = "spec.ledger.bounds:Bound.__call__"
UNDERFLOW = ("ordinary", "tiny values")
ONCE = ("ordinary",)
OWN = ("ordinary", "underflow")
ROW = 0  # one row a regime: the terms by themselves are compared on all
Matrix = tuple[tuple[Fraction, ...], ...]


def _at(rows: Matrix) -> Callable[..., Any]:
    """V as the theorems have it: a function of the key, or of the key and the channel."""

    def entry(j: int, *channel: int) -> Any:
        return rows[j][channel[0]] if channel else rows[j].__getitem__

    return entry


def _variables(sizes: Magnitudes, i: int) -> dict[str, Any]:
    """The theorems' variables in row i, by their names."""
    block = sizes.block
    named = {
        "P": block.p, "dP": block.dp, "dS": block.ds, "w": block.weights, "dO": block.do_input,
        "dO'": block.do, "O32": block.o32, "O": block.o,
    }  # fmt: skip
    p = exact(block.p[i])
    top = max(range(len(p)), key=p.__getitem__)
    keys = len(p)
    return {
        "n": keys, "m": block.v.shape[1], "s": row_sum(sizes, i), "h": row_sum(sizes, i),
        "V": _at(tuple(map(exact, block.v))), "head": lambda j: top,
        "scale": Fraction(float(block.do_scale[i])), "delta": Fraction(float(block.delta[i])),
        "l": Fraction(float(block.norm[i])), "row": Fraction(float(block.norm[i])),
        "shift": Fraction(float(block.shift[i])), "a": Fraction(float(block.delta[i])), "b": ONE,
        **{name: exact(x[i]).__getitem__ for name, x in named.items()},
    }  # fmt: skip


def _bound(sizes: Magnitudes, names: tuple[str, ...]) -> F64:
    """What the terms of a row add up to, as a verdict has each of them."""
    return np.asarray(sum(BOUNDS[name](sizes) for name in names))


def _before(contract: Contract, regimes: tuple[str, ...]) -> Callable[[], Iterator[Case]]:
    """A row of each regime, before the cast."""

    def cases() -> Iterator[Case]:
        for regime in regimes:
            sizes = magnitudes(contract, REGIMES[regime])
            coded = _bound(sizes, TERMS_OF_MODE[contract.delta])
            yield float(coded[ROW]), [(ONE, _variables(sizes, ROW))]

    return cases


def _after(
    contract: Contract, regimes: tuple[str, ...], own: Callable[[Magnitudes], dict[str, Any]]
) -> Callable[[], Iterator[Case]]:
    """The same after the cast, beside what the terms add up to; the tile's scale is 1."""

    def cases() -> Iterator[Case]:
        for regime in regimes:
            sizes = magnitudes(contract, REGIMES[regime])
            before = _bound(sizes, TERMS_OF_MODE[contract.delta])[ROW]
            coded = before + np.asarray(BOUNDS["cast"](sizes))[ROW]
            ds = exact(sizes.block.ds[ROW])
            shared = {"n": len(ds), "dS": ds.__getitem__, "before": Fraction(float(before))}
            yield float(coded), [(ONE, {**shared, **own(sizes)})]

    return cases


def _codes(sizes: Magnitudes) -> dict[str, Any]:
    codes = exact(sizes.block.ds_cast[ROW])
    return {"scale": lambda j: ONE, "codes": codes.__getitem__}


def _chains(sizes: Magnitudes) -> dict[str, Any]:
    """Quotients by the scale 1 are the numbers themselves."""
    return {"c": tuple((ONE, uses["l"]) for _, uses in zero_sum(sizes, ROW))}


def _tie(name: str, theorem: str, regimes: tuple[str, ...], **form: str) -> Tie:
    return Tie(f"row, {name}", CODE, theorem, _before(_form("article", **form), regimes))


TIES: tuple[Tie, ...] = (
    _tie("stale", "stale_row", UNDERFLOW, delta="stale"),
    _tie("stale, l of codes", "stale_row_codes", ONCE, delta="stale", normaliser="codes"),
    _tie("consistent", "consistent_row", UNDERFLOW, delta="consistent"),
    _tie(
        "consistent, l of codes", "consistent_row_codes", ONCE,
        delta="consistent", normaliser="codes",
    ),
    _tie("associated", "associated_row", UNDERFLOW, delta="associated", normaliser="codes"),
    _tie("matched", "matched_row", OWN, delta="matched"),
    _tie("renormalized", "renormalized_row", OWN, delta="renormalized"),
    _tie("shifted", "shifted_row", OWN, delta="shifted"),
    Tie(
        "row, after the nearest cast", CODE, "after_nearest",
        _after(_form("article", delta="stale"), ("one tile", "small dS", "tiny dS"), _codes),
    ),
    Tie(
        "row, after the zero-sum cast", CODE, "after_zero_sum",
        _after(
            _form("article", delta="stale", ds_cast="zero-sum"), ("one tile",), _chains
        ),
    ),
)  # fmt: skip
"""Rows of every delta."""
