"""Closed forms for O, LSE, delta, dQ, dK and dV, as sums of named terms.

With the relative errors of ``errors`` compounded, V, K, Q, dO the largest magnitudes and G the
largest |dP|; every element of the output is within

    O      V ((1 + codes)(1 + exponent)(1 + accumulate)(1 + store) ... - 1)
    LSE    logits + argument + function + sum + log + mean of k + store
    delta  stale, consistent, associated: |dO|_1 times O's error, the dot over channels, the cast
           of dO; matched: G times P's error, dP's error, the sum; renormalized, shifted: thrice
    dS     a row's sum of |dS - dS*|: 2 G times P's error, dP's and delta's errors, elem
    dQ     scale K (dS + cast + accumulate), and the store
    dK     scale Q times the queries that see a key times (dS + cast + accumulate), and the store
    dV     dO times the same times (P's error + codes + accumulate), and the store

They hold for any input, so they are far above ordinary errors: a random walk is bounded as if it
went one way, and dK and dV as if every query attended to one key. Enclosures are the sharp tool.
Source: derived here from the lemmas that each term cites. Not covered: inputs whose outputs are not
finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

from dmverify.errors import ContractError, InputError
from dmverify.spec.bounds.errors import (
    ABSOLUTE,
    CODES,
    DOT,
    LG2,
    LOG,
    RELATIVE,
    SUMS,
    TWICE,
    UNDERFLOW_ERROR,
    Errors,
    U,
    path,
    subnormal,
)
from dmverify.spec.bounds.norms import Norms
from dmverify.spec.bounds.premises import PREMISES
from dmverify.spec.bounds.term import ClosedForm, Term, compounded, inverse, settled, total
from dmverify.spec.constants import DEFINITION, constant
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.ledger.bounds.constants import (
    CAST_ROUNDINGS,
    CHAIN_LANES,
    DOT_ROUNDINGS,
    ELEM_ROUNDINGS,
    GRADIENT_ROUNDINGS,
    LSE_ROUNDINGS,
    OUTPUT_ROUNDINGS,
    QUOTIENT_FACTOR,
    QUOTIENT_ROUNDINGS,
    SHIFT_ROUNDINGS,
)
from dmverify.spec.ledger.bounds.derived import require_derived
from dmverify.spec.ledger.bounds.rounding import overflow_of, stored_rounding
from dmverify.spec.premises import failing
from dmverify.spec.problem import Problem

REFERENCES = ("operands", "inputs")
FLUSH, CAST_SHIFT, CARRY, CARRY_GROWTH, SUBNORMAL, CODE_MAX, E4M3_NORMAL = (
    float(constant(name))
    for name in (
        "FLUSH",
        "CAST_SHIFT",
        "CARRY",
        "CARRY_GROWTH",
        "SUBNORMAL_CAST",
        "E4M3_MAX",
        "E4M3_SMALLEST_NORMAL",
    )
)
CAST = RELATIVE + TWICE + path(CAST_ROUNDINGS + 1)  # of an element of P, relative
CODE_OVERFLOW = overflow_of(E4M3)
CARRIED = ("cast-perturbation", "e4m3-error", "carry-telescopes")


def closed_form(
    output: str,
    contract: Contract,
    *,
    problem: Problem,
    norms: Norms,
    reference: str = "operands",
) -> ClosedForm:
    """The bound of every element of an output.

    Args:
        output: One of ``OUTPUTS``.
        contract: The numerics.
        problem: Sizes and scale.
        norms: Of the call's operands (``measure``).
        reference: ``operands``: exact attention on the dequantised operands; ``inputs``: on the
            original tensors.

    Raises:
        InputError: For another output or reference.
        ContractError: If no closed form is derived for the contract's operands.
    """
    for word, words in ((output, OUTPUTS), (reference, REFERENCES)):
        if word not in words:
            raise InputError(repr(word), rule=f"one of {', '.join(words)}", fix="use one of them")
    require_derived(contract, output=output)
    errors = Errors(contract, problem, norms, reference)
    if errors.on_inputs and errors.unscaled:
        raise ContractError(
            f"{contract.name} against the original inputs",
            rule="operand_rule = unit has no scale, so a cast may saturate by any amount",
            fix="use reference='operands'",
        )
    terms = settled(OUTPUTS[output](errors), failing(PREMISES, errors))
    return ClosedForm(output, reference, terms)


def attention_output(errors: Errors, *, stored: bool = True) -> tuple[Term, ...]:
    """O."""
    relative = [*errors.weights, Term("accumulate", accumulate(errors), DOT[errors.schedule.kind])]
    v_max = errors.at_least_a_code(errors.norms.v_max)
    size = v_max * (1 + (errors.operand_of("v") if errors.on_inputs else 0.0))
    store = stored_term(errors, size * math.prod(1 + term.value for term in relative))
    if stored:
        relative.append(store)
    terms = [*compounded(size, relative), _tiny(output_underflow(errors, stored=stored))]
    if errors.on_inputs:
        moved = errors.norms.v_max * errors.operand_of("v") + subnormal(errors.roundings["v"])
        terms.append(Term("operand V", moved, errors.codes_of("v")))
    return tuple(terms)


def output_underflow(errors: Errors, *, stored: bool) -> float:
    """What underflow takes of an element of O: of P, of the products with V, of the store."""
    size = errors.norms.v_max * (1 + (errors.operand_of("v") if errors.on_inputs else 0.0))
    products = errors.keys * FLUSH * (1 + size)
    return products + errors.underflow * size + (least_of(errors) if stored else 0.0)


def stored_term(errors: Errors, size: float) -> Term:
    """Relative error of the store of numbers of at most ``size``; what saturates errs by itself."""
    store, own = errors.store, stored_rounding(errors.store)
    lemmas = ("bf16-store",) if store.fmt is BF16 else (DEFINITION,)
    saturates = store.saturate and not size < overflow_of(store.fmt)
    return Term("store", 1.0 if saturates else own.relative, lemmas)


def least_of(errors: Errors) -> float:
    """What a store may change in any number: half its smallest one, or float32's own underflow."""
    return stored_rounding(errors.store).absolute


def accumulate(errors: Errors) -> float:
    """Relative error of P V: the dot over the keys, promotion and the quotient."""
    if not errors.windowed:
        return (1 + path(OUTPUT_ROUNDINGS)) * (1 + errors.keys * U) - 1
    width = errors.schedule.step(errors.keys)
    return (1 + errors.dot(width)) * (1 + path(OUTPUT_ROUNDINGS + errors.keys / width)) - 1


def _lse(errors: Errors) -> tuple[Term, ...]:
    log_l = 1 + math.log(errors.keys)
    log = LG2 * 2 if errors.windowed else LOG
    mean = abs(errors.problem.scale) * errors.norms.q_given * errors.norms.k_mean
    largest = errors.logit + log_l + mean
    return (
        *errors.exponent,
        Term("sum", errors.row(), SUMS),
        Term("log", log * (1 + 2 * log_l), ("lg2-error", "lg2-near-one", DEFINITION)),
        Term("mean of k", mean * errors.channels, SUMS),
        Term("store", path(LSE_ROUNDINGS) * 2 * (largest + 1), ("lse-store", "rn-error")),
    )


def _delta(errors: Errors) -> tuple[Term, ...]:
    """The softmax correction, ``shift + delta``, rows that see no key among them."""
    terms = delta(errors)
    problem = errors.problem
    if not errors.delta_mode.shifts or problem.mask().any(axis=1).all() or not problem.keys:
        return terms
    # such a row's shift is its dP at key 0, and exact attention's correction is 0
    size = (errors.gradient + total(errors.dp)) * (1 + path(SHIFT_ROUNDINGS))
    more = max(size - total(terms), 0.0) if size < math.inf else size
    return (
        *terms,
        Term("rows without keys", more, ("dead-row", *DOT[errors.schedule.kind])),
    )


def delta(errors: Errors) -> tuple[Term, ...]:
    """The softmax correction of rows that see a key."""
    if errors.delta_mode.from_output:
        return _delta_from_output(errors)
    return _delta_from_rows(errors)


def _delta_from_output(errors: Errors) -> tuple[Term, ...]:
    mode, one, top = errors.delta_mode, errors.norms.do_one, errors.norms.v_max
    spread = one * (1 + errors.operand)
    terms = [
        Term(f"O: {term.name}", spread * term.value, term.lemmas)
        for term in attention_output(errors, stored=mode.reads_stored)
    ]
    size = spread * (top + total(attention_output(errors)))
    terms.append(Term("dot over channels", errors.channels * size, SUMS))
    if mode.reads_input != errors.on_inputs:
        size = top + total(attention_output(errors))
        terms.append(Term("codes of dO", errors.do_moved * size, errors.codes_of("do")))
    return (*terms, _tiny(errors.problem.head_dim * FLUSH * (1 + one + top)))


def _delta_from_rows(errors: Errors) -> tuple[Term, ...]:
    size = errors.gradient + total(errors.dp)
    dp = total(errors.dp)
    wide = QUOTIENT_FACTOR if errors.delta_mode.quotient else 1
    order = [*errors.probability, Term("dot over keys", errors.row(DOT_ROUNDINGS), SUMS)]
    if wide > 1:
        lemmas = (*SUMS, "relative-inverse")
        order.append(Term("sum of weights", inverse(errors.row(2)), lemmas))
    terms = list(compounded(wide * size, order))
    terms += [Term(term.name, wide * term.value, term.lemmas) for term in errors.dp]
    terms.append(Term("shift", path(SHIFT_ROUNDINGS) * wide * size, ("rn-error",)))
    return (*terms, _tiny(errors.keys * FLUSH * (1 + size) + errors.underflow * (size + dp)))


def gradient_row(errors: Errors) -> tuple[Term, ...]:
    """Sum over a row of |dS - dS*|, before the cast."""
    size = 2 * (errors.gradient + total(errors.dp))
    whole = size + total(errors.dp) + total(delta(errors))
    softmax = errors.weights if errors.delta_mode.forward_p else errors.probability
    terms = list(compounded(whole, softmax))
    terms += errors.dp
    terms += [Term(f"delta: {term.name}", term.value, term.lemmas) for term in delta(errors)]
    elem = path(ELEM_ROUNDINGS + 1) * whole * (1 + total(softmax))
    terms.append(Term("elem", elem, ("elem-error", "two-roundings")))
    return (*terms, _tiny(errors.keys * FLUSH * (1 + whole) + errors.underflow * whole))


def cast_row(errors: Errors, row: float) -> Term:
    """Sum over a row of |dS^ - dS|; ``row`` bounds the sum of |dS|."""
    if saturates(errors, row):
        return Term("cast of dS", row * (1 + path(CAST_ROUNDINGS)), (DEFINITION,))
    plain = row * of_ds(errors) + errors.keys * errors.roundings["ds"].absolute * errors.unit
    plain = plain + errors.keys * _subnormal_ds(errors)
    if errors.ds_cast == "nearest":
        return Term("cast of dS", plain, errors.codes_of("ds"))
    # |q_i - x_i| <= |c_i| + |c_(i-1)|, and sum |c| <= (sum |x| / 17 + floor) / (1 - 1 / 17)
    carried = 2 * plain / (1 - RELATIVE) * (1 + path(CAST_ROUNDINGS + 1))
    return Term("cast of dS, carried", carried, CARRIED)


def cast_element(errors: Errors, largest: float) -> Term:
    """|dS^ - dS| of one element."""
    if errors.ds_cast == "zero-sum":
        carries = 2 * (largest_carry(errors) - CARRY) + CAST_SHIFT  # the last one, and this one's
        moved = carries * errors.unit + path(CAST_ROUNDINGS + 1) * largest
        return Term("cast of dS, carried", moved, (*CARRIED, "carry-unclamped"))
    if saturates(errors, largest):
        return Term("cast of dS", largest * (1 + path(CAST_ROUNDINGS)), (DEFINITION,))
    plain = largest * of_ds(errors) + errors.roundings["ds"].absolute * errors.unit
    return Term("cast of dS", plain + _subnormal_ds(errors), errors.codes_of("ds"))


def of_ds(errors: Errors) -> float:
    """Relative error of an element of dS after its cast."""
    return errors.roundings["ds"].relative + TWICE + path(CAST_ROUNDINGS + 1)


def saturates(errors: Errors, size: float) -> bool:
    """Whether a static scale may meet a dS of this size beyond its codes, which then saturate.

    Codes that do not saturate are no numbers there, and such outputs are not covered.
    """
    static, most = errors.ds_factor, errors.roundings["ds"].largest * errors.unit
    return static is not None and errors.saturating and not size <= most


def _subnormal_ds(errors: Errors) -> float:
    """What a subnormal scale may change in an element of dS; a static one is none."""
    return 0.0 if errors.ds_factor else subnormal(errors.roundings["ds"])


def largest_carry(errors: Errors) -> float:
    """Of a chain of the zero-sum cast, in units of codes: 16, and more where codes saturate."""
    return CARRY + errors.schedule.tile / CHAIN_LANES * CARRY_GROWTH


def _dq(errors: Errors) -> tuple[Term, ...]:
    row = gradient_row(errors)
    exact = errors.exact_row
    cast = cast_row(errors, exact + total(row))
    terms = [*row, cast]
    whole = exact + total(terms)
    scale = abs(errors.problem.scale)
    windows = errors.keys / errors.schedule.step(errors.keys)
    size = whole, windows * _least_code(errors)
    return _gradient(errors, terms, size, (scale, errors.norms.k_max), keys=errors.keys, name="K")


def _dk(errors: Errors) -> tuple[Term, ...]:
    row = gradient_row(errors)
    exact, queries = errors.exact_row, _queries(errors)
    one = [*row, cast_element(errors, exact + total(row))]
    whole = exact + total(one)
    scale = abs(errors.problem.scale) * queries
    size = whole, _least_code(errors)
    return _gradient(errors, one, size, (scale, errors.norms.q_max), keys=queries, name="q")


def _dv(errors: Errors) -> tuple[Term, ...]:
    relative = list(errors.probability)
    if errors.delta_mode.forward_p:
        relative = list(errors.weights)
    terms = list(compounded(1.0, relative))
    terms.append(cast_share(errors, 1 + total(terms)))
    whole = 1 + total(terms)
    queries = _queries(errors)
    size = whole, E4M3_NORMAL * 2 / CODE_MAX * whole
    return _gradient(errors, terms, size, (queries, errors.norms.do_max), keys=queries, name="dO")


def cast_share(errors: Errors, largest: float) -> Term:
    """|P^ - P| of one element; a unit is a power of two, or less, or what a contract says."""
    unit = (1 + path(2)) / errors.p_factor if errors.p_factor else largest * 2 / CODE_MAX
    cast = largest * (CAST + _saturated_p(errors)) + ABSOLUTE * unit + SUBNORMAL
    return Term("cast of P", cast, CODES)


def _saturated_p(errors: Errors) -> float:
    """1 where static codes of P may saturate, so that only its own size is known.

    However far logits are off, a row's P sum to 1 but for the sum's error and the quotient's.
    """
    largest = (1 + inverse(errors.row(2))) * (1 + path(QUOTIENT_ROUNDINGS))
    return float((errors.p_factor or 0) * largest >= CODE_OVERFLOW)


def _gradient(
    errors: Errors,
    terms: list[Term],
    size: tuple[float, float],
    factors: tuple[float, float],
    *,
    keys: int,
    name: str,
) -> tuple[Term, ...]:
    """Scaled terms, then what the last product, its operand's codes and the store add.

    ``size`` is what weights sum to, and what their least normal codes add to it on a tensor core;
    ``factors`` are what a weight is multiplied with: a scale, and the largest of operand ``name``.
    """
    whole, least = size
    scale = factors[0] * errors.at_least_a_code(factors[1])
    length = errors.schedule.step(keys)
    extra = path(GRADIENT_ROUNDINGS + keys / length + 2 * errors.problem.group)
    dot = (1 + _chain(errors, keys)) * (1 + extra) - 1
    scaled = [Term(term.name, scale * term.value, term.lemmas) for term in terms]
    held = whole + (least if errors.windowed else 0.0)  # at least 2^E, codes below 2^-6 included
    scaled.append(Term("accumulate", scale * held * dot, DOT[errors.schedule.kind]))
    if errors.on_inputs:
        own, tiny = errors.operand_of(name.lower()), subnormal(errors.roundings[name.lower()])
        moved = scale * own * (1 + own) + factors[0] * tiny
        scaled.append(Term(f"operand {name}", whole * moved, errors.codes_of(name.lower())))
    largest = scale * held * (1 + dot)
    store = stored_term(errors, largest)
    scaled.append(replace(store, value=largest * store.value))
    return (*scaled, _tiny(least_of(errors) + keys * FLUSH * (1 + scale)))


def _chain(errors: Errors, length: int) -> float:
    """Relative error of a product over tokens."""
    if not errors.windowed:
        return (1 + path(2)) * (1 + (length + errors.problem.group + 2) * U) - 1
    return errors.dot(errors.schedule.step(length))


def _least_code(errors: Errors) -> float:
    """What the least normal code of dS is worth at most: a smaller one keeps its exponent."""
    return E4M3_NORMAL * errors.unit


def _queries(errors: Errors) -> int:
    return max(errors.problem.queries * errors.problem.group, 1)


def _tiny(value: float) -> Term:
    flushed = ("rn-error-subnormal", "flush-to-zero", "sum-flush-to-zero", "bf16-store-tiny")
    return Term(
        "underflow", value + UNDERFLOW_ERROR, (*flushed, "scale-denormal", "scale-tiny-overshoot")
    )


OUTPUTS: MappingProxyType[str, Callable[[Errors], tuple[Term, ...]]] = MappingProxyType(
    {"o": attention_output, "lse": _lse, "delta": _delta, "dq": _dq, "dk": _dk, "dv": _dv}
)
"""What has a closed form, and its terms."""
