"""Closed forms of LSE, delta, weights, casts and row sums against the theorems of ``Composed``.

Each theorem is about numbers that the code has under the same names; see ``ties``. A contract of
rows is compared where roundings are all there is, one with windows where the tensor core is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dmverify.proofs.statements import get_statement
from dmverify.proofs.tie_values import ONE, leaves
from dmverify.proofs.ties import Case, Tie
from dmverify.proofs.ties_closed import CHANNELS, KEYS, NORMS, errors
from dmverify.proofs.ties_composed import FLUSH, STORE, relative
from dmverify.spec.bounds import closed
from dmverify.spec.bounds.errors import Errors, drift_of, path, unit_sum
from dmverify.spec.bounds.residual import residual
from dmverify.spec.bounds.term import inverse, total
from dmverify.spec.constants import constant
from dmverify.spec.ledger.bounds.constants import (
    DOT_ROUNDINGS,
    LSE_ROUNDINGS,
    OUTPUT_ROUNDINGS,
    SHIFT_ROUNDINGS,
)

U, RELATIVE, TINY = (constant(name) for name in ("U", "E4M3_RELATIVE", "E4M3_ABSOLUTE"))
STEPS = 16  # of a chain of the zero-sum cast
FUNCTION = {"article": (1, constant("EXP")), "bundled": (2, constant("EX2"))}
LOG = {
    "article": constant("LOG"),
    "bundled": 2 * (constant("LG2_RELATIVE") + constant("LG2_ABSOLUTE")),
}
LAG = {"article": Fraction(0), "bundled": 2 * constant("RESCALE_THRESHOLD")}
_FLUSHED = "underflow: 2^-126 beside roundings of 2^-24"
_NONE = "nothing of the kind in this mode: the theorem has 0"
Make = Callable[[Errors], tuple[float, dict[str, Any]]]


def _cases(make: Make, *of: Errors) -> Callable[[], Iterator[Case]]:
    """What the code says and the theorem's variables."""

    def cases() -> Iterator[Case]:
        for each in of:
            coded, variables = make(each)
            yield coded, [(ONE, variables)]

    return cases


def _logarithm(of: Errors) -> tuple[float, dict[str, Any]]:
    """A chain of additions."""
    tree = leaves((Fraction(1, of.keys),) * of.keys)
    return of.row(), {"t": tree, "k": of.keys - 1}


def _exponent(of: Errors) -> tuple[float, dict[str, Any]]:
    base = "bundled" if of.windowed else "article"
    calls, error = FUNCTION[base]
    logit = Fraction(of.problem.scale)
    return total(of.exponent), {
        "L": logit, "d": Fraction(of.dot(of.problem.head_dim) + path(2)),
        "T": 2 * logit + LAG[base], "k": Fraction(calls), "F": error,
    }  # fmt: skip


def _lse(of: Errors) -> tuple[float, dict[str, Any]]:
    base = "bundled" if of.windowed else "article"
    log_l = 1 + Fraction(math.log(of.keys))
    mean = Fraction(of.problem.scale) * 7
    form = closed.closed_form("lse", of.contract, problem=of.problem, norms=of.norms)
    return form.value, {
        "e": Fraction(math.fsum(term.value for term in of.exponent)), "s": Fraction(of.row()),
        "c": LOG[base], "T": log_l, "z": Fraction(of.channels), "M": mean,
        "k": Fraction(path(LSE_ROUNDINGS)), "Z": Fraction(of.logit) + log_l + mean,
    }  # fmt: skip


def _operand_row(of: Errors) -> tuple[float, dict[str, Any]]:
    """A row of one channel whose code is 1, and what 64 of the least codes would add."""
    said = get_statement("operand_of_code").claims[0]
    e, f = said.terms(s=ONE, z=ONE, x=ONE)
    return of.row_of("q"), {
        "m": 1, "y": lambda _: ONE, "e": e, "r": Fraction(math.isqrt(of.problem.head_dim)),
        "f": f / constant("E4M3_MAX"),
    }  # fmt: skip


def _moved() -> Iterator[Case]:
    """Ordinary rows, and rows as small as what a subnormal scale leaves."""
    of = errors("article")
    for x, y in ((1.0, 1.0), (2.0**-112, 2.0**-114)):
        small = replace(of, norms=replace(of.norms, q=x, k=y))
        names = {"X": Fraction(x), "Y": Fraction(y), "r": Fraction(of.row_of("q"))}
        names |= {"s": Fraction(of.row_of("k")), "t": Fraction(of.tiny_row("q", "k"))}
        yield small.moved("q", "k", x * y), [(ONE, names)]


def _dp() -> Iterator[Case]:
    claim = tuple((Fraction(1, CHANNELS), ONE, None, None) for _ in range(CHANNELS))
    yield total(errors("article").dp), [(ONE, {"l": claim, "F": Fraction(2)})]


def _accumulate() -> Iterator[Case]:
    """O of a row of equal weights."""
    claim = tuple((Fraction(1, KEYS), ONE, None, None) for _ in range(KEYS))
    coded = closed.accumulate(errors("article"))
    yield coded, [(ONE, {"l": claim, "row": ONE, "V": ONE, "W": Fraction(1, KEYS)})]


def _weights(of: Errors) -> tuple[float, dict[str, Any]]:
    return float(relative(of.weights)), {
        "q": relative(of.probability), "c": Fraction(of.code), "nu": Fraction(inverse(of.code_sum)),
    }  # fmt: skip


def _row_delta(of: Errors) -> tuple[float, dict[str, Any]]:
    return total(closed.delta(of)), {
        "w": relative(of.probability), "g": Fraction(of.row(DOT_ROUNDINGS)),
        "h": Fraction(inverse(of.row(2))), "x": Fraction(total(of.dp)), "G": Fraction(of.gradient),
        "k": Fraction(path(SHIFT_ROUNDINGS)), "t": FLUSH,
    }  # fmt: skip


def _element() -> Iterator[Case]:
    """The largest of a tile, and the largest that vanishes."""
    of = errors("article")
    unit = Fraction(of.unit)
    for x in (448 * unit, TINY * unit):
        yield closed.cast_element(of, float(x)).value, [(ONE, {"x": x, "s": unit, "z": None})]


def _carried(of: Errors) -> tuple[float, dict[str, Any]]:
    d = 448 * Fraction(of.unit)
    return closed.cast_element(of, float(d)).value, {
        "s": Fraction(of.unit), "d": d, "C": constant("CARRY") + STEPS * constant("CARRY_GROWTH"),
        "r": Fraction(1, 2**16),
    }  # fmt: skip


def _row_cast() -> Iterator[Case]:
    """Rows of the largest numbers, and of the largest that vanish."""
    of = errors("article", 4)
    unit = Fraction(of.unit)
    for x in (448 * unit, TINY * unit):
        uses = [(ONE, {"x": x, "s": unit, "z": None})] * 4
        yield closed.cast_row(of, float(4 * x)).value, uses


def _row_carried() -> Iterator[Case]:
    of = errors("article", 4, ds_cast="zero-sum")
    unit = Fraction(of.unit)
    for x in (448 * unit, TINY * unit):
        yield (
            closed.cast_row(of, float(4 * x)).value,
            [(ONE, {"a": RELATIVE + U, "n": 4, "f": TINY * unit, "r": 5 * U, "X": 4 * x})],
        )


def _share() -> Iterator[Case]:
    """P, its largest and what vanishes beside it; a unit is 2 / 448 of the largest."""
    unit = Fraction(2) / constant("E4M3_MAX")
    yield closed.cast_share(errors("article"), 1.0).value, [(ONE, {"x": ONE, "s": unit, "z": None})]


def _from_output(of: Errors) -> tuple[float, dict[str, Any]]:
    """Row sums: what delta reads says which errors there are."""
    mode = of.delta_mode
    form = residual(of.contract, problem=of.problem, norms=NORMS)
    elem = next(term.value for term in form.terms if term.name == "elem")
    moved = (1 + Fraction(of.code)) * (1 + Fraction(drift_of(of))) * (1 + Fraction(of.row()))
    moved *= 1 + Fraction(path(OUTPUT_ROUNDINGS))
    if of.normaliser == "codes":
        moved *= (1 + Fraction(inverse(of.code))) * (1 + Fraction(inverse(of.code_sum)))
    nb = Fraction(unit_sum(of))
    if mode.forward_p:
        nb = (1 + Fraction(inverse(of.code_sum))) * (1 + Fraction(of.row(DOT_ROUNDINGS))) - 1
    return form.value, {
        "w": 0 if mode.forward_p else moved - 1, "G": Fraction(of.gradient + total(of.dp)),
        "g": Fraction(of.do_moved) if mode.reads_input else Fraction(0),
        "V": Fraction(of.norms.v_max), "L": 1 + Fraction(total(of.weights)),
        "s": Fraction(of.norms.do_one) * (1 + Fraction(of.operand)),
        "a": Fraction(closed.accumulate(of)), "b": STORE if mode.reads_stored else Fraction(0),
        "c": Fraction(of.channels), "nb": nb, "x": Fraction(total(of.dp)), "e": Fraction(elem),
        "t1": Fraction(0), "t2": Fraction(constant("BF16_ABSOLUTE")), "td": Fraction(0),
    }  # fmt: skip


def _mean(base: str) -> Errors:
    """With a mean of keys to give back, of 7 beside a longest key of 1."""
    of = errors(base)
    return replace(of, norms=replace(of.norms, k_mean=7.0))


def _tie(name: str, code: str, theorem: str, cases: Any, unseen: dict[int, str]) -> Tie:
    return Tie(f"closed: {name}", f"spec.bounds.{code}", theorem, cases, unseen)


def _each(name: str, code: str, theorem: str, make: Make, of: Callable[[str], Errors]) -> list[Tie]:
    return [_tie(f"{name}, {base}", code, theorem, _cases(make, of(base)), {}) for base in FUNCTION]


_TWICE = "the code has an element's roundings twice, as it has its carries"
_ELEM = "closed:cast_element"
_ROW = "closed:cast_row"

TIES: tuple[Tie, ...] = (
    _tie(
        "logarithm of l", "errors:Errors.row", "logarithm_of_a_sum",
        _cases(_logarithm, errors("article")), {},
    ),
    *_each("ln of e", "errors:Errors.exponent", "exponent_closed", _exponent, errors),
    *_each("LSE", "closed:closed_form", "lse_closed", _lse, _mean),
    _tie(
        "an operand's row", "errors:Errors.row_of", "norm_of_codes",
        _cases(_operand_row, errors("article")), {},
    ),
    _tie("a dot of operands", "errors:Errors.moved", "operands_moved", _moved, {}),
    _tie("dP", "errors:Errors.dp", "rounded_operands", _dp, {1: _FLUSHED}),
    _tie("P V", "closed:accumulate", "rounded_quotient", _accumulate, {1: _FLUSHED}),
    _tie(
        "weights, O over the sum of codes", "errors:Errors.weights", "weights_of_codes",
        _cases(_weights, errors("bundled")), {},
    ),
    _tie(
        "delta of the row", "closed:delta", "delta_of_row",
        _cases(_row_delta, errors("article")), {3: _FLUSHED},
    ),
    _tie(
        "delta, a quotient", "closed:delta", "delta_of_quotient",
        _cases(_row_delta, errors("article", delta="shifted")), {3: _FLUSHED},
    ),
    _tie("cast of an element of dS", _ELEM, "operand_cast", _element, {}),
    _tie(
        "cast of an element of dS, zero-sum", _ELEM, "carried_element",
        _cases(_carried, errors("article", ds_cast="zero-sum")), {},
    ),
    _tie("cast of a row of dS", _ROW, "operand_cast", _row_cast, {}),
    _tie("cast of a row of dS, zero-sum", _ROW, "carried_row", _row_carried, {1: _TWICE}),
    _tie("cast of a share for dV", "closed:cast_share", "operand_cast", _share, {}),
    *(
        _tie(
            f"row sum, {mode}", "residual:residual", "from_output_closed",
            _cases(_from_output, errors("article", delta=mode, normaliser=normaliser)),
            {8: _FLUSHED, **dict.fromkeys(none, _NONE)},
        )
        for mode, normaliser, none in (
            ("stale", "unrounded", ()), ("consistent", "unrounded", (1,)),
            ("associated", "codes", (0, 1, 3)),
        )
    ),
)  # fmt: skip
"""Bounds that follow from norms, and the theorems of ``Composed``."""
