"""The table of checks."""

from __future__ import annotations

from difflib import get_close_matches

from dmverify.conformance.checks.bands import band_check
from dmverify.conformance.checks.check import Check
from dmverify.conformance.checks.residuals import (
    cast_row_sum_check,
    dump_check,
    row_sum_check,
    terms_check,
)
from dmverify.conformance.checks.special import (
    bits_check,
    dead_row_check,
    format_check,
    nan_check,
    repeat_check,
)
from dmverify.errors import UnknownNameError

_BAND = "the interval of every order of summation and every code it allows, stored in BF16"
_ROW = "the interval of every order of summation and every code it allows, in float32"
_ENCLOSE = "dmverify.spec.enclosure"
_TERMS = "dmverify.spec.ledger.bounds"

_ROWS = (
    Check("o", _ENCLOSE, _BAND, "P or V scales and codes, rescaling, lost tiles", band_check),
    Check("lse", _ENCLOSE, _ROW, "normaliser, base of the logarithm, head stride", band_check),
    Check("dq", _ENCLOSE, _BAND, "delta, softmax scale, K centring, dS codes", band_check),
    Check("dk", _ENCLOSE, _BAND, "delta, softmax scale twice, GQA sums, transposes", band_check),
    Check("dv", _ENCLOSE, _BAND, "P codes of the backward, GQA sums", band_check),
    Check("delta", _ENCLOSE, _ROW, "another delta than the contract's mode", band_check, "delta"),
    Check(
        "row-sum",
        _TERMS,
        "the sum of the bounds of the mode's terms",
        "a delta that does not match dS: stale where matched is promised",
        row_sum_check,
        "internals",
    ),
    Check(
        "row-sum-cast",
        _TERMS,
        "the same, and half a code for every element",
        "a dS cast with a wrong scale, or one that loses what it should carry",
        cast_row_sum_check,
        "internals",
    ),
    Check(
        "ledger",
        _TERMS,
        "each term's own bound",
        "two faults whose sum is small",
        terms_check,
        "internals",
    ),
    Check(
        "dump",
        "dmverify.spec.case",
        "equality",
        "a dump of another run than the outputs",
        dump_check,
        "internals",
    ),
    Check(
        "nan",
        "dmverify.spec.enclosure.special",
        "NaN exactly where it is due",
        "NaN swallowed, infinity made finite, NaN out of nothing",
        nan_check,
    ),
    Check(
        "dead-rows",
        "dmverify.spec.problem",
        "0, and -inf for LSE",
        "NaN or stale memory where a query sees no key",
        dead_row_check,
    ),
    Check(
        "format",
        "dmverify.spec.case",
        "O and gradients are BF16 numbers",
        "outputs in another format than promised",
        format_check,
    ),
    Check(
        "repeat",
        "dmverify.spec.attention",
        "the same bits in two calls",
        "results that depend on timing or on memory left over",
        repeat_check,
    ),
    Check(
        "bits",
        "dmverify.spec.attention",
        "equality in every bit",
        "any other order, fusion or rounding than the contract's",
        bits_check,
        "bits",
    ),
)

CHECKS: dict[str, Check] = {check.id: check for check in _ROWS}


def get_check(name: str) -> Check:
    """The check of this id.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in CHECKS:
        near = get_close_matches(name, CHECKS) or list(CHECKS)
        raise UnknownNameError(
            f"check {name!r}",
            rule="a check is a row of the table",
            fix=f"did you mean {' or '.join(near)}? 'dmverify list checks' shows all",
        )
    return CHECKS[name]
