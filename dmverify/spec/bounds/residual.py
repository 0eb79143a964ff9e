"""Closed forms of a row's sum of dS: what should be zero, before and after the cast.

G >= |dP|, O = |dO|_1 V >= |delta| where delta reads the output; n keys.

| delta | terms before the cast |
|---|---|
| stale | prob: codes of P, G; grad: codes of dO; out: BF16 store, O; acc, dot, norm, accdP, elem |
| consistent | the same without grad |
| associated | acc, dot, accdP, elem; norm: the sum of codes |
| matched | match: n U G; norm: G |1 - B|; elem: 4 U G |
| renormalized | match and the sum of weights: 2 n U G; elem; no norm: independent of B |
| shifted | the same of dP - d0, at most 2 G |

and where delta reads the output, what underflow takes: half the smallest BF16 of O, dO times.

|1 - B| <= the sum of l, the quotient, and with windows what the two passes' exponentials differ by,
ln 2 U (distances of the logit from the references) + 3 ex2. None depends on |LSE|, as the contracts
save a reference and l. A kernel that saves log l rounds it: ``unit_sum_of_log_lse`` grows with
|LSE| (U |L| ln 2), which is why these contracts do not.

After the cast: 1/17 of the row's sum of magnitudes and half a subnormal per key; zero-sum: one
error of at most 16 code units for each of the four chains of a tile, which a row that fills few
tiles reaches, and at most 1/16 of its magnitudes: a closed form cannot know how small the last
number of a chain is, so it gains little there. The ledger, which sees it, gains the most.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dmverify.spec.bounds.closed import (
    FLUSH,
    accumulate,
    largest_carry,
    least_of,
    stored_term,
)
from dmverify.spec.bounds.errors import (
    CODE_MAX,
    CODES,
    DOT,
    EX2,
    SUMS,
    UNDERFLOW_ERROR,
    Errors,
    U,
    drift_of,
    path,
    unit_sum,
)
from dmverify.spec.bounds.norms import Norms
from dmverify.spec.bounds.premises import PREMISES
from dmverify.spec.bounds.term import ClosedForm, Term, grown, inverse, settled, total
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract
from dmverify.spec.ledger.bounds.constants import (
    CARRIED_ROUNDINGS,
    CAST_ROUNDINGS,
    CHAIN_LANES,
    DOT_ROUNDINGS,
    ELEM_ROUNDINGS,
    OUTPUT_ROUNDINGS,
    RECIPROCAL_ROUNDINGS,
)
from dmverify.spec.ledger.bounds.derived import require_derived
from dmverify.spec.premises import failing
from dmverify.spec.problem import Problem

RELATIVE = float(constant("E4M3_RELATIVE"))
ABSOLUTE = float(constant("E4M3_ABSOLUTE"))
LG2_RELATIVE = float(constant("LG2_RELATIVE"))
LG2_ABSOLUTE = float(constant("LG2_ABSOLUTE"))
PRODUCT_UNDERFLOWS = int(constant("PRODUCT_UNDERFLOWS"))


def residual(
    contract: Contract, *, problem: Problem, norms: Norms, cast: bool = False
) -> ClosedForm:
    """The bound of |sum of dS| over every row.

    Args:
        contract: The numerics.
        problem: Sizes and scale.
        norms: Of the call's operands (``measure``).
        cast: Whether the sum is taken after the cast.

    Raises:
        ContractError: If no closed form is derived for the contract's operands.
    """
    require_derived(contract)
    errors = Errors(contract, problem, norms, "operands")
    terms = _terms(errors)
    if cast:
        terms = (*terms, _cast(errors, total(terms)))
    if errors.windowed:  # P is e / l, and l is what it is taken for while exponents are exact
        terms = tuple(replace(t, lemmas=(*t.lemmas, "window-argument")) for t in terms)
    name = "row sum, cast" if cast else "row sum"
    return ClosedForm(name, "operands", settled(terms, failing(PREMISES, errors)))


def _terms(errors: Errors) -> tuple[Term, ...]:
    """The terms of R, the row sum of dS before the cast."""
    if errors.delta_mode.from_output:
        return _from_output(errors)
    return _quotient(errors) if errors.delta_mode.quotient else _matched(errors)


def _from_output(errors: Errors) -> tuple[Term, ...]:
    mode, one = errors.delta_mode, errors.norms.do_one
    top = errors.at_least_a_code(errors.norms.v_max)
    spread = one * (1 + errors.operand) * top
    kind = errors.schedule.kind
    slack = 1 + total(errors.weights)
    summed = slack * (1 + accumulate(errors))  # |O| before its store, over V
    store = stored_term(errors, top * summed)
    read = summed * (1 + (store.value if mode.reads_stored else 0.0))
    size = spread * read * (1 + errors.channels)  # |delta|
    terms = [
        Term("acc", accumulate(errors) * spread * slack, DOT[kind]),
        Term("dot", errors.channels * spread * read, SUMS),
        *(Term("accdP", term.value * slack, term.lemmas) for term in errors.dp),
        _elem(errors),
        _underflow(errors, slack),
    ]
    if mode.forward_p:
        nu = (1 + inverse(errors.code_sum)) * (1 + errors.row(DOT_ROUNDINGS)) - 1
        return (*terms, Term("norm", nu * size, (*DOT[kind], "norm-perturbation")))
    if mode.reads_stored:
        tiny = one * (1 + errors.operand) * least_of(errors)
        terms.append(replace(store, name="out", value=store.value * spread * summed + tiny))
    terms.append(Term("norm", unit_sum(errors) * size, ("norm-perturbation", *SUMS)))
    drift = drift_of(errors)
    both = (1 + errors.code) * (1 + drift) * (1 + errors.row()) * (1 + path(OUTPUT_ROUNDINGS)) - 1
    if errors.normaliser == "codes":
        both = (1 + both) * (1 + inverse(errors.code)) * (1 + inverse(errors.code_sum)) - 1
    terms.append(Term("prob", both * (errors.gradient + total(errors.dp)), CODES))
    if mode.reads_input:
        moved = errors.do_moved * errors.norms.v_max * slack
        terms.append(Term("grad", moved, errors.codes_of("do")))
    return tuple(terms)


def _underflow(errors: Errors, slack: float) -> Term:
    """What it takes of acc, dot and accdP: no share of what they are sums of.

    O is off by half a fp32 subnormal a product, and dO multiplies that. On the tensor core such a
    half is worth up to the largest product of two codes.
    """
    norms = errors.norms
    unit = CODE_MAX**2 if errors.windowed else 1.0
    keys = errors.keys + errors.schedule.step(errors.keys)
    element = UNDERFLOW_ERROR * PRODUCT_UNDERFLOWS * keys * unit
    dot = (1 + norms.v_max) * max(norms.do_max, 1.0)
    dp = unit + 2 * (2 + norms.do_max + norms.v_max)
    channels = UNDERFLOW_ERROR * (errors.problem.head_dim + 2) * (dot + dp)
    value = (norms.do_one * (1 + errors.operand) * element + channels) * slack
    return Term("underflow", value, ("rn-error-subnormal",))


def _matched(errors: Errors) -> tuple[Term, ...]:
    size = _size(errors)
    extra = RECIPROCAL_ROUNDINGS if errors.windowed else 0
    return (
        Term("match", errors.row(extra) * size, ("matched-bound", *SUMS)),
        Term("norm", unit_sum(errors) * size, ("norm-perturbation", *SUMS)),
        _elem(errors),
    )


def _quotient(errors: Errors) -> tuple[Term, ...]:
    """Renormalized and shifted: |A - delta B| by the quotient's lemma."""
    shifted = errors.delta_mode.shifts
    size = _size(errors) * (2 if shifted else 1)
    g = (1 + errors.row()) * (1 + path(2)) - 1
    h = errors.row()
    more = path(2) * 2 * (1 + path(RECIPROCAL_ROUNDINGS)) if errors.windowed else 0.0
    lemma = "shifted-delta" if shifted else "renormalized-delta"
    return (
        Term("match", g * size, (lemma, *SUMS)),
        Term("sum of weights", (1 + g) * (h + U) * (1 + inverse(h)) * size, (lemma, *SUMS)),
        Term("P rounded once more", more * size, ("two-roundings",)),
        _elem(errors),
    )


def unit_sum_of_log_lse(lse: float, *, entropy: float, keys: int) -> float:
    """Bound of |1 - B| for a kernel that saves L = M + lg2(l) and takes P = ex2(s c - L).

    Args:
        lse: |L| in base 2.
        entropy: Of the row, in bits.
        keys: n.
    """
    stored = U * (abs(lse) + math.log2(max(keys, 2)) + 1) + LG2_ABSOLUTE
    log = LG2_RELATIVE * math.log2(max(keys, 2))
    arguments = 2 * U * (entropy + 2)
    return grown(math.log(2) * (stored + log + arguments) + path(keys) + 2 * EX2)


def _size(errors: Errors) -> float:
    """Sum of P |dP|."""
    return (errors.gradient + total(errors.dp)) * (1 + unit_sum(errors))


def _elem(errors: Errors) -> Term:
    roundings = ELEM_ROUNDINGS if errors.delta_mode.shifts else 2
    whole = 2 * _size(errors) * (1 + errors.row(2))
    tiny = errors.keys * FLUSH * (1 + max(errors.unit, 1.0))
    return Term("elem", path(roundings) * whole + tiny, ("elem-error", "two-roundings"))


def _cast(errors: Errors, before: float) -> Term:
    lemmas = errors.codes_of("ds")
    if errors.ds_cast == "zero-sum":
        lemmas = ("carry-telescopes", "carry-unclamped", "carry-clamped", "cast-row-sum")
    whole = np.asarray(2 * _size(errors) + before)
    return Term("cast", float(cast_of_rows(errors, whole)), lemmas)


def cast_of_rows(errors: Errors, whole: F64) -> F64:
    """|sum (dS^ - dS)| of rows whose sum of |dS| is at most ``whole``, in its shape."""
    own = errors.roundings["ds"]
    floor = errors.keys * own.absolute * errors.unit
    if errors.ds_cast == "nearest":
        each = whole * (own.relative + path(CAST_ROUNDINGS + 1)) + floor
        known = whole * (1 + path(2 * CAST_ROUNDINGS + 2))
        if errors.ds_factor and errors.saturating:  # what is beyond the codes is known by its size
            each = np.where(whole <= own.largest * errors.unit, each, known)
        return np.asarray(np.minimum(each, known))
    tiles = math.ceil(errors.keys / errors.schedule.tile)
    chain = largest_carry(errors)
    # sum |c| <= (sum |x| / 17 + floor) / (1 - 1 / 17), which few tiles do not reach
    every = (whole * RELATIVE + floor) / (1 - RELATIVE)
    left = np.minimum(CHAIN_LANES * tiles * chain * errors.unit, every)
    return np.asarray(left + path(CARRIED_ROUNDINGS) * whole + path(2) * left)
