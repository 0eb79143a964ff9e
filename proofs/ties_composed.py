"""Closed forms that compose others against the theorems that do, on problems of one head.

What is composed are numbers that the code has: here the theorem says how, and ``ties_closed`` and
``ties_ledger`` what each of them is. See ``ties``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dmverify.proofs.tie_values import ONE, UNDERFLOW_ERROR
from dmverify.proofs.ties import Case, Tie
from dmverify.proofs.ties_closed import NORMS, errors
from dmverify.spec.bounds import closed
from dmverify.spec.bounds.errors import Errors, drift_of, path, unit_sum
from dmverify.spec.bounds.residual import residual
from dmverify.spec.bounds.term import Term, compounded, inverse, total
from dmverify.spec.constants import constant
from dmverify.spec.ledger.bounds.constants import (
    DOT_ROUNDINGS,
    ELEM_ROUNDINGS,
    GRADIENT_ROUNDINGS,
    OUTPUT_ROUNDINGS,
)

STORE, FLUSH = Fraction(constant("BF16_RELATIVE")), Fraction(constant("FLUSH"))
UNDER_BF16 = Fraction(constant("BF16_ABSOLUTE"))
KEYS = (16, 1024)
E4M3_NORMAL = float(constant("E4M3_SMALLEST_NORMAL"))
SUBNORMAL_V = replace(
    NORMS, do=2.0**60, do_max=2.0**60, do_one=2.0**66, v=2.0**-133, v_max=2.0**-133
)
SUBNORMAL_DP = replace(SUBNORMAL_V, do_one=2.0**60)
_TINY = "underflow: 2^-126 beside roundings of 2^-24"
_CORE = "two roundings of 2^-24 beside a tensor core that keeps 14 bits"


def relative(terms: tuple[Term, ...]) -> Fraction:
    """What relative errors compound to."""
    return Fraction(math.expm1(math.fsum(math.log1p(term.value) for term in terms)))


def _cases(
    base: str, make: Callable[[Errors], tuple[float, dict[str, Any]]], **changes: Any
) -> Callable[[], Iterator[Case]]:
    """What the code says and the theorem's variables, short rows and long ones."""

    def cases() -> Iterator[Case]:
        for keys in KEYS:
            coded, variables = make(errors(base, keys, **changes))
            yield coded, [(ONE, variables)]

    return cases


def _tiny_cases(
    make: Callable[[Errors], tuple[float, dict[str, Any]]], **changes: Any
) -> Callable[[], Iterator[Case]]:
    """Operands of size 1, and V below BF16's normal numbers under a large dO."""

    def cases() -> Iterator[Case]:
        for norms in (NORMS, SUBNORMAL_V, SUBNORMAL_DP):
            coded, variables = make(replace(errors("article", KEYS[0], **changes), norms=norms))
            yield coded, [(ONE, variables)]

    return cases


def _share(of: Errors) -> tuple[float, dict[str, Any]]:
    """One key with all of a row's weight; what follows the exponential has its own terms."""
    moved = of.probability[: len(of.exponent)]
    return float(relative(moved)), {
        "e": Fraction(math.fsum(term.value for term in of.exponent)), "n": 1, "j": 0,
        "y": lambda j: Fraction(0),
    }  # fmt: skip


def _output(of: Errors) -> tuple[float, dict[str, Any]]:
    return total(closed.attention_output(of)), {
        "V": Fraction(of.norms.v_max), "w": relative(of.weights),
        "a": Fraction(closed.accumulate(of)), "b": STORE, "t": FLUSH,
    }  # fmt: skip


def _delta(of: Errors) -> tuple[float, dict[str, Any]]:
    return total(closed.delta(of)), {
        "s": Fraction(of.norms.do_one) * (1 + Fraction(of.operand)), "c": Fraction(of.channels),
        "e": Fraction(total(closed.attention_output(of))), "V": Fraction(of.norms.v_max),
    }  # fmt: skip


def _row(of: Errors) -> tuple[float, dict[str, Any]]:
    return total(closed.gradient_row(of)), {
        "w": relative(of.probability), "G": Fraction(of.gradient), "x": Fraction(total(of.dp)),
        "y": Fraction(total(closed.delta(of))), "z": Fraction(path(ELEM_ROUNDINGS + 1)),
        "n": of.keys, "f": FLUSH,
    }  # fmt: skip


def _product(
    of: Errors, output: str, count: int, factor: tuple[Fraction, float], row: tuple[Any, ...]
) -> tuple[float, dict[str, Any]]:
    """A gradient: a product over ``count`` tokens; ``row`` is S, E and the least that S is."""
    size, off, least = (Fraction(x) for x in row)
    length, group, u = of.schedule.step(count), of.problem.group, constant("U")
    extra = 1 + Fraction(path(GRADIENT_ROUNDINGS + count / length + 2 * group))
    chain = (1 + Fraction(path(2))) * (1 + (count + group + 2) * u)
    if of.windowed:
        chain, size = 1 + Fraction(of.dot(length)), size + least
    form = closed.closed_form(output, of.contract, problem=of.problem, norms=NORMS)
    return form.value, {
        "c": factor[0], "K": Fraction(factor[1]), "E": off, "S": size, "a": chain * extra - 1,
        "b": STORE, "t": FLUSH,
    }  # fmt: skip


def _dq(of: Errors) -> tuple[float, dict[str, Any]]:
    """Over keys; a window has a largest exponent of its own."""
    row = total(closed.gradient_row(of))
    cast = closed.cast_row(of, of.exact_row + row).value
    windows = of.keys / of.schedule.step(of.keys)
    least = windows * of.unit * E4M3_NORMAL
    factor = Fraction(abs(of.problem.scale)), of.norms.k_max
    return _product(of, "dq", of.keys, factor, (of.exact_row, row + cast, least))


def _dk(of: Errors) -> tuple[float, dict[str, Any]]:
    """Over the queries of every head of a group."""
    row, count = total(closed.gradient_row(of)), of.problem.queries * of.problem.group
    cast = closed.cast_element(of, of.exact_row + row).value
    factor = Fraction(abs(of.problem.scale)), of.norms.q_max
    least = count * of.unit * E4M3_NORMAL
    return _product(of, "dk", count, factor, (count * of.exact_row, count * (row + cast), least))


def _dv(of: Errors) -> tuple[float, dict[str, Any]]:
    """The same of P."""
    count = of.problem.queries * of.problem.group
    row = total(compounded(1.0, list(of.probability)))
    row += closed.cast_share(of, 1 + row).value
    least = count * E4M3_NORMAL * 2 / closed.CODE_MAX * (1 + row)
    return _product(of, "dv", count, (ONE, of.norms.do_max), (count, count * row, least))


def _stale(of: Errors) -> tuple[float, dict[str, Any]]:
    form = residual(of.contract, problem=of.problem, norms=of.norms)
    elem = next(term.value for term in form.terms if term.name == "elem")
    code = Fraction(of.code)
    moved = (1 + code) * (1 + Fraction(drift_of(of))) * (1 + Fraction(of.row()))
    moved *= 1 + Fraction(path(OUTPUT_ROUNDINGS))
    if of.normaliser == "codes":
        moved *= (1 + Fraction(inverse(of.code))) * (1 + Fraction(inverse(of.code_sum)))
    absolute = {"a0": products_lost(of), "b0": UNDER_BF16, "c0": dot_lost(of), "x0": dp_lost(of)}
    return form.value, {
        "w": moved - 1, "G": Fraction(of.gradient + total(of.dp)), "g": Fraction(of.do_moved),
        "V": Fraction(of.norms.v_max), "Vb": Fraction(of.norms.v_max),
        "L": 1 + Fraction(total(of.weights)),
        "s": Fraction(of.norms.do_one) * (1 + Fraction(of.operand)),
        "a": Fraction(closed.accumulate(of)), "b": STORE, "c": Fraction(of.channels),
        "nb": Fraction(unit_sum(of)), "x": Fraction(total(of.dp)), "e": Fraction(elem), **absolute,
    }  # fmt: skip


def _associated(of: Errors) -> tuple[float, dict[str, Any]]:
    """What the sum of codes misses, and the two roundings of a share, are one figure there."""
    value, variables = _stale(of)
    nu = (1 + Fraction(inverse(of.code_sum))) * (1 + Fraction(of.row(DOT_ROUNDINGS))) - 1
    share = Fraction(path(2))
    return value, {**variables, "nb": nu - share, "w": share}


def products_lost(of: Errors) -> Fraction:
    """Half a subnormal for each product of a sum over keys, its operands and its own rounding."""
    unit = Fraction(constant("E4M3_MAX")) ** 2 if of.windowed else ONE
    keys = of.keys + of.schedule.step(of.keys)
    return 4 * 4 * keys * UNDERFLOW_ERROR * unit


def dot_lost(of: Errors) -> Fraction:
    """The same of delta's dot over channels."""
    size = (1 + Fraction(of.norms.v_max)) * max(Fraction(of.norms.do_max), ONE)
    return UNDERFLOW_ERROR * (of.problem.head_dim + 2) * size


def dp_lost(of: Errors) -> Fraction:
    """The same of dP's."""
    unit = Fraction(constant("E4M3_MAX")) ** 2 if of.windowed else ONE
    size = unit + 2 * (2 + Fraction(of.norms.do_max) + Fraction(of.norms.v_max))
    return UNDERFLOW_ERROR * (of.problem.head_dim + 2) * size


def _tie(name: str, where: str, theorem: str, cases: Any, unseen: dict[int, str]) -> Tie:
    return Tie(f"composed: {name}", f"spec.bounds.{where}", theorem, cases, unseen)


TIES: tuple[Tie, ...] = (
    *(
        _tie(
            f"a moved logit, {base}", "errors:Errors.probability", "moved_share",
            _cases(base, _share), {},
        )
        for base in ("article", "bundled")
    ),
    *(
        _tie(
            f"O, {base}", "closed:attention_output", "output_closed",
            _cases(base, _output), {1: _TINY},
        )
        for base in ("article", "bundled")
    ),
    _tie(
        "delta of the output", "closed:delta", "delta_closed",
        _cases("article", _delta, delta="consistent"), {},
    ),
    *(
        _tie(
            f"row of dS, {base}", "closed:gradient_row", "row_closed",
            _cases(base, _row), {4: _TINY, **unseen},
        )
        for base, unseen in (("article", {}), ("bundled", {3: _CORE}))
    ),
    *(
        _tie(
            f"{name}, {base}", "closed:closed_form", "product_closed",
            _cases(base, make, group=2), {3: _TINY},
        )
        for name, make in (("dQ", _dq), ("dK", _dk), ("dV", _dv))
        for base in ("article", "bundled")
    ),
    *(
        _tie(
            f"row sum, {delta}, underflow", "residual:residual", f"{delta}_closed_row",
            _tiny_cases(make, delta=delta, **more), {},
        )
        for delta, make, more in (
            ("stale", _stale, {}),
            ("consistent", _stale, {}),
            ("associated", _associated, {"normaliser": "codes"}),
        )
    ),
)  # fmt: skip
"""Bounds that are other bounds, put together."""
