"""Closed forms and column sums against their theorems, on the rows that they are the worst of.

A closed form knows norms alone, so it is compared where these are attained: every key with the same
P, every |dP| the largest, the codes of a group at half a unit. See ``ties``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dmverify.proofs.evaluate import definition
from dmverify.proofs.statements import get_statement
from dmverify.proofs.tie_values import EX2, ONE, QUAD, UNDERFLOW_ERROR, chain, leaves
from dmverify.proofs.ties import Case, Tie
from dmverify.spec.bounds import columns
from dmverify.spec.bounds.errors import Errors, drift_of, unit_sum
from dmverify.spec.bounds.norms import Norms
from dmverify.spec.bounds.residual import cast_of_rows, residual
from dmverify.spec.bounds.term import total
from dmverify.spec.constants import constant
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem

U = constant("U")
KEYS, CHANNELS = 64, 64
NORMS = Norms(
    q=1.0,
    k=1.0,
    v=1.0,
    do=1.0,
    q_max=1.0,
    k_max=1.0,
    v_max=1.0,
    do_max=1.0,
    do_one=float(CHANNELS),
    q_given=1.0,
    k_mean=0.0,
)
_NO_UNDERFLOW = "the code has a hundred times what underflow takes, and less than any rounding"
_SMALL_BESIDE_CARRY = "roundings are 2^-24 of numbers whose last carry is 1 / 16 of them"


def errors(base: str, keys: int = KEYS, *, group: int = 1, **changes: str) -> Errors:
    """Of a contract on a problem of one key head, norms 1."""
    problem = Problem(1, group, 1, keys, keys, CHANNELS, causal=False)
    return Errors(get_contract(base, **changes), problem, NORMS, "operands")


def _once(coded: Callable[[], float], **variables: Any) -> Callable[[], Iterator[Case]]:
    """One case, one use."""

    def cases() -> Iterator[Case]:
        yield coded(), [(ONE, variables)]

    return cases


def _even(keys: int, size: Fraction = ONE) -> tuple[tuple[Fraction, Fraction], ...]:
    """A row whose keys have the same P, and |dP| = size."""
    return ((Fraction(1, keys), size),) * keys


def _dequantised() -> Iterator[Case]:
    """64 products of size 1 / 64; what underflow takes is not in the closed form's dot."""
    claim = tuple((Fraction(1, CHANNELS), ONE, None, None) for _ in range(CHANNELS))
    yield errors("article").dot(CHANNELS), [(ONE, {"l": claim, "F": Fraction(2)})]


def _codes() -> Iterator[Case]:
    """W = X Y = 1, as much as all products."""
    width = int(constant("K32"))
    step = ((ONE, ONE), (Fraction(1, CHANNELS),) * width)
    steps = (step,) * (CHANNELS // width)
    uses = [(ONE, {"W": ONE, "n": Fraction(width), "c": Fraction(0), "steps": steps})]
    yield errors("bundled").dot(CHANNELS), uses


def _unit_sum() -> Iterator[Case]:
    p = Fraction(1, KEYS)
    variables: dict[str, Any] = {
        "n": KEYS, "P": lambda j: p, "lam": lambda j: Fraction(0), "s": (KEYS - 1) * U, "q": U,
        "f": UNDERFLOW_ERROR, "delta": ONE,
    }  # fmt: skip
    yield unit_sum(errors("article")), [(ONE, variables)]


def _unit_sum_windows() -> Iterator[Case]:
    """Every key log2 n below the reference."""
    below = sum(get_statement("below_reference").claims[0].terms(P=Fraction(1, KEYS), n=ONE * KEYS))
    lam = definition("Softmax", "lambda")(below, Fraction(1, 2), EX2)
    path = definition("Binary32", "path")
    variables: dict[str, Any] = {
        "n": KEYS, "P": lambda j: Fraction(1, KEYS), "lam": lambda j: lam, "s": path(QUAD - 1 + 1),
        "q": path(2), "f": Fraction(0), "delta": ONE,
    }  # fmt: skip
    yield unit_sum(errors("bundled")), [(ONE, variables)]


def _drift() -> Iterator[Case]:
    """The mean of exp(lambda) - 1 in long rows, P below as uneven as entropy allows."""
    top = Fraction(1, 2**14)  # of lambda, for every P that is a positive float32
    for keys in (2**6, 2**12, 2**20):
        h = 2 * Fraction(np.log2(keys)) + 1
        variables = {"r": Fraction(1, 2), "E": EX2, "H": h}
        yield drift_of(errors("bundled", keys)), [(1 / (1 - top), variables)]


def _operand() -> Iterator[Case]:
    """The largest of a block, under the scale 1."""
    largest = constant("E4M3_MAX")
    yield errors("article").operand * float(largest), [(ONE, {"x": largest, "s": ONE, "z": None})]


def _operand_row() -> Iterator[Case]:
    """Every channel as large, O = 1."""
    scale = 1 / constant("E4M3_MAX")
    yield errors("article").do_moved, [(ONE, {"l": ((ONE, scale, None, ONE),) * CHANNELS})]


def _group() -> Iterator[Case]:
    """One large P, the others of its group at the floor."""
    floor = constant("E4M3_ABSOLUTE") / constant("E4M3_MAX")
    large = {"P": ONE - 63 * floor, "F": floor, "g": ONE}
    small = [(ONE, {"P": floor, "F": floor, "g": ONE})] * 63
    yield errors("article").code, [(ONE, large), *small]


def _nearest() -> Iterator[Case]:
    """Numbers halfway between codes, and one below all codes; in units of the code."""
    of = errors("article", 4)
    codes = (Fraction(17, 16), Fraction(17, 8), Fraction(17, 4), Fraction(1, 1024))
    whole = np.asarray(of.unit * float(sum(codes)))
    yield float(cast_of_rows(of, whole)), [(Fraction(of.unit), {"l": codes})]


def _zero_sum() -> Iterator[Case]:
    """One key a chain; then full chains whose last code is the largest."""
    for keys, x in ((4, Fraction(256)), (64, constant("E4M3_MAX"))):
        of = errors("article", keys, ds_cast="zero-sum")
        unit, chains = Fraction(of.unit), 4
        row = ((x, x * unit),) * (keys // chains)
        whole = np.asarray(float(x * unit) * keys)
        yield float(cast_of_rows(of, whole)), [(ONE, {"l": row, "s": unit})] * chains


def _matched() -> Iterator[Case]:
    """Every |dP| = G, delta = -G: no row of these norms is worse."""
    contract = get_contract("article")
    of = errors("article")
    form = residual(contract, problem=of.problem, norms=NORMS)
    b, g = Fraction(unit_sum(of)), Fraction(of.gradient + total(of.dp))
    r = tuple(((1 + b) * p, d) for p, d in _even(KEYS, g))
    yield form.value, [(ONE, {"t": chain(r), "delta": -g * (1 + b)})]


def _column_rows() -> tuple[Errors, columns.Rows, dict[str, Any]]:
    """Rows of sizes 3, 2 and 1, and the theorem's names for them."""
    of = errors("article")
    sizes = {"mass": 3.0, "spread": 2.0, "delta": 1.0, "top": 4.0, "rho": 0.25}
    rows = columns.Rows(**{name: np.full((1, 1), x) for name, x in sizes.items()})
    names = {
        "rho": Fraction(1, 4), "b": Fraction(unit_sum(of)), "e": Fraction(total(of.dp)),
        "g": Fraction(of.row(4)), "spread_exact": Fraction(2), "delta_exact": ONE,
        "mass_exact": Fraction(3),
    }  # fmt: skip
    return of, rows, names


def _reach() -> Iterator[Case]:
    """Each of the four parts the largest once."""
    of, rows, names = _column_rows()
    for part in ("spread", "delta", "mass", "none"):
        huge = float(2**40)
        some = rows if part == "none" else replace(rows, **{part: np.full((1, 1), huge)})
        if part != "spread":
            some = replace(some, spread=np.zeros((1, 1)))
        own = {
            **names,
            "spread_exact": Fraction(float(some.spread[0, 0])),
            "delta_exact": Fraction(float(some.delta[0, 0])),
            "mass_exact": Fraction(float(some.mass[0, 0])),
        }
        mass = (1 + some.rho) * (some.mass + total(of.dp))
        yield float(columns.delta_reach(of, some, mass)[0, 0]), [(ONE, own)]


def _spread() -> Iterator[Case]:
    of, rows, names = _column_rows()
    for moved in (0.0, 5.0):
        coded = columns.kernel_spread(of, rows, np.full((1, 1), moved))
        yield float(coded[0, 0]), [(ONE, {**names, "D": Fraction(moved)})]


TIES: tuple[Tie, ...] = (
    Tie(
        "closed: sum over keys",
        "spec.bounds.errors:Errors.row",
        "sum_any_tree",
        _once(lambda: errors("article").row(), t=leaves((Fraction(1, KEYS),) * KEYS)),
    ),
    Tie(
        "closed: dot of dequantised operands",
        "spec.bounds.errors:Errors.dot",
        "rounded_operands",
        _dequantised,
        {1: _NO_UNDERFLOW},
    ),
    Tie("closed: dot on the tensor core", "spec.bounds.errors:Errors.dot", "carried_chain", _codes),
    Tie("closed: |1 - B|, rows", "spec.bounds.errors:unit_sum", "norm_coded", _unit_sum),
    Tie(
        "closed: |1 - B|, windows",
        "spec.bounds.errors:unit_sum",
        "norm_coded",
        _unit_sum_windows,
        {0: "the mean of lambda is bounded by about twice, see the next"},
    ),
    Tie(
        "closed: mean of exp(lambda) - 1",
        "spec.bounds.errors:drift_of",
        "mean_lambda",
        _drift,
        {1: "four errors of ex2 for three, in a figure that the arguments make"},
    ),
    Tie(
        "closed: cast of an operand", "spec.bounds.errors:Errors.operand", "operand_cast", _operand
    ),
    Tie("closed: cast of dO", "spec.bounds.errors:Errors.do_moved", "grad_known", _operand_row),
    Tie("closed: cast of P", "spec.bounds.errors:Errors.code", "code_error_coded", _group),
    Tie(
        "closed: cast of dS, nearest",
        "spec.bounds.residual:cast_of_rows",
        "nearest_known",
        _nearest,
    ),
    Tie(
        "closed: cast of dS, zero-sum",
        "spec.bounds.residual:cast_of_rows",
        "zero_sum_scaled",
        _zero_sum,
        {1: _SMALL_BESIDE_CARRY, 2: _SMALL_BESIDE_CARRY},
    ),
    Tie(
        "closed: matched",
        "spec.bounds.residual:residual",
        "matched",
        _matched,
        {1: _NO_UNDERFLOW},
    ),
    Tie("columns: |delta' - delta|", "spec.bounds.columns:delta_reach", "delta_reach", _reach),
    Tie(
        "columns: sum P |dP - delta|",
        "spec.bounds.columns:kernel_spread",
        "kernel_spread",
        _spread,
    ),
)
"""Bounds that follow from norms."""
