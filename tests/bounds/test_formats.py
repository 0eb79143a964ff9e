"""Bounds of other formats, scales and stores: they hold, and are narrow enough to find faults."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.errors import ContractError
from dmverify.spec.arithmetic import Exact, Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.stores import STORES
from dmverify.spec.bounds import OUTPUTS, closed_form, measure, residual
from dmverify.spec.bounds.column_ledger import columns
from dmverify.spec.bounds.columns import column_bound
from dmverify.spec.constants import constant
from dmverify.spec.contracts import DELTAS, get_contract
from dmverify.spec.formats import BF16, E4M3, E5M2, FP16, INT8
from dmverify.spec.ledger import ledger
from dmverify.spec.ledger.bounds.rounding import overflow_of, rounding_of, stored_rounding
from dmverify.spec.margin import margin_of

ROWS = "article:centre_k=none"
WHOLE = f"{ROWS},q_block=whole,k_block=whole,v_block=whole,do_block=whole"
CONTRACTS = {
    "E5M2 dS": "article:ds_format=e5m2",
    "E5M2 dO, static dS": f"{ROWS},do_format=e5m2,ds_format=e5m2,ds_scale=256",
    "static dS that saturates": f"{ROWS},ds_scale=4096,saturate=true",
    "static P": f"{ROWS},p_scale=448,store=fp32",
    "P as 3 e": f"{ROWS},p_scale=3",
    "INT8 and BF16": "article:q_format=int8,k_format=int8,do_format=bf16",
    "INT8 dO": "article:do_format=int8,v_format=int8",
    "channels of V": f"{ROWS},v_scales=channels",
    "scales of 1": f"{ROWS},operand_rule=unit",
    "one scale a call": f"{WHOLE},scale_span=call",
    "powers of two": f"{ROWS},operand_rule=amax-e8m0",
    "FP16 outputs": "article:store=fp16",
    "E4M3 outputs": "article:store=e4m3",
}
SMALL = ",heads=2,kv_heads=1,queries=9,keys=70,head_dim=32@3"
CASES = (f"gaussian/spread-4{SMALL}", f"offset/kv-16{SMALL}", f"distinct-scales/wide{SMALL}")


def contract_of(what, mode):
    codes = ",normaliser=codes" if mode == "associated" else ""
    return get_contract(f"{CONTRACTS[what]},delta={mode}{codes}")


@cache
def run_of(contract, name):
    case = generate(name, contract=contract.name)
    with np.errstate(all="ignore"):
        run = interpret(contract, case.problem, case.inputs, Single(), internals=True)
    return case, run.internals, run.outputs


def book_of(contract, name, *, outputs=None, **shown):
    """The ledger of a conforming run, or of one that shows other numbers."""
    case, internals, own = run_of(contract, name)
    return ledger(
        contract,
        case.problem,
        inputs=case.inputs,
        internals=replace(internals, **shown),
        outputs=outputs or own,
        keep_exact=False,
    )


# Formats


def values_of(fmt):
    if fmt is INT8:
        return [Fraction(n) for n in range(128)]
    return [fmt.to_fraction(code) for code in range(fmt.max_code + 1)]


def passed(fmt, relative, absolute):
    """Gaps between neighbouring numbers whose middle errs by more than both."""
    values = values_of(fmt)
    return sum(
        (high - low) / 2 > max((high + low) / 2 * relative, absolute)
        for low, high in pairwise(values)
    )


@pytest.mark.parametrize(
    ("fmt", "relative", "absolute"),
    [
        (E4M3, Fraction(1, 17), Fraction(1, 2**10)),
        (E5M2, Fraction(1, 9), Fraction(1, 2**17)),
        (INT8, Fraction(0), Fraction(1, 2)),
    ],
)
def test_every_gap_of_a_format_is_within_its_row(fmt, relative, absolute):
    own = rounding_of(fmt)
    assert (own.relative, own.absolute) == (float(relative), float(absolute))
    assert own.largest == fmt.max_finite == values_of(fmt)[-1]
    assert passed(fmt, relative, absolute) == 0
    assert passed(fmt, relative * Fraction(9, 10), absolute * Fraction(9, 10)) > 0


@pytest.mark.parametrize("fmt", [E4M3, E5M2, FP16, BF16])
def test_a_code_says_how_far_what_it_stands_for_may_be(fmt):
    """Half a gap above a code is at most half_unit of its power of two; half of that is not."""
    own = rounding_of(fmt) if fmt in (E4M3, E5M2) else stored_rounding(STORES[fmt.name.lower()])
    codes = np.arange(1, fmt.max_code, max(fmt.max_code // 4000, 1))
    for code in codes.tolist():
        low, high = fmt.to_fraction(code), fmt.to_fraction(code + 1)
        power = Fraction(2) ** (int(np.frexp(float(low))[1]) - 1)
        most = max(Fraction(own.half_unit) * power, Fraction(own.absolute))
        assert most / 2 < (high - low) / 2 <= most
    over = Fraction(overflow_of(fmt))
    assert over == fmt.to_fraction(fmt.max_code) + (high - low) / 2


def test_rows_of_the_table_of_constants_are_kept():
    bf16 = stored_rounding(STORES["bf16"])
    assert overflow_of(BF16) == constant("BF16_OVERFLOW")
    assert (bf16.relative, bf16.absolute) == (2.0**-8, 2.0**-134)
    assert rounding_of(E4M3).scaled == constant("SCALED_MAX")
    assert rounding_of(BF16).exact
    assert stored_rounding(STORES["fp32"]).exact
    assert not bf16.exact


# Bounds that hold


@pytest.mark.parametrize("mode", DELTAS)
@pytest.mark.parametrize("what", CONTRACTS)
def test_conforming_rows_and_sums_stay_inside(what, mode):
    contract = contract_of(what, mode)
    for name in CASES:
        case, internals, outputs = run_of(contract, name)
        book = book_of(contract, name)
        assert book.closes.all()
        assert {n: book.worst(n) for n in book.names if book.worst(n).margin > 1} == {}
        norms = measure(contract, case.problem, case.inputs)
        after = book.residual + book.values["cast"]
        for cast, sums in ((False, book.residual), (True, after)):
            form = residual(contract, problem=case.problem, norms=norms, cast=cast)
            assert np.abs(sums[book.defined]).max(initial=0) <= form.value < np.inf
        dk = outputs.dk.astype(np.float64)
        bound = column_bound(contract, case.problem, case.inputs).with_store(dk)
        assert margin_of(dk.sum(axis=1), bound)[np.isfinite(dk).all(axis=1)].max(initial=0) <= 1
        lines = columns(
            case.problem, inputs=case.inputs, internals=internals, outputs=outputs, book=book
        )
        for line, values in lines.values.items():
            assert margin_of(values, lines.bounds[line])[lines.defined].max(initial=0) <= 1, line


@pytest.mark.parametrize("what", CONTRACTS)
def test_no_error_exceeds_its_closed_form(what):
    contract = contract_of(what, "matched")
    case, _, outputs = run_of(contract, CASES[0])
    norms = measure(contract, case.problem, case.inputs)
    references = {"operands": frozenset({"operands"}), "inputs": frozenset()}
    for reference, casts in references.items():
        if reference == "inputs" and what == "scales of 1":
            continue
        exact = interpret(contract, case.problem, case.inputs, Exact(casts)).values
        for output in OUTPUTS:
            form = closed_form(
                output, contract, problem=case.problem, norms=norms, reference=reference
            )
            seen = np.isfinite(exact[output])
            error = np.abs(getattr(outputs, output) - exact[output])[seen].max()
            assert 0 < error <= form.value < np.inf, (output, reference)


def test_an_output_that_may_saturate_errs_by_itself():
    """V of 2,000 passes E4M3's 448, and O of 2,000 is stored as 448."""
    contract = get_contract("article:store=e4m3")
    case = generate(f"gaussian/spread-1{SMALL}", contract=contract.name)
    norms = measure(contract, case.problem, case.inputs)
    near, far = (
        closed_form("o", contract, problem=case.problem, norms=replace(norms, v_max=size)).terms
        for size in (8.0, 2000.0)
    )
    store = {term.name: term.value for term in near}["store"]
    assert store == 8 / 17
    assert {term.name: term.value for term in far}["store"] == 2000 > 2000 - 448


def test_what_may_saturate_by_any_amount_has_no_form_against_the_inputs():
    contract = get_contract(CONTRACTS["scales of 1"])
    case = generate(CASES[0], contract=contract.name)
    norms = measure(contract, case.problem, case.inputs)
    with pytest.raises(ContractError, match="operand_rule = unit"):
        closed_form("o", contract, problem=case.problem, norms=norms, reference="inputs")


def test_a_forward_alone_has_the_forms_of_its_outputs():
    contract = get_contract("article:gradients=false,q_format=int8,k_format=int8")
    case = generate(CASES[0], contract=contract.name)
    norms = measure(contract, case.problem, case.inputs)
    for output in ("o", "lse"):
        assert closed_form(output, contract, problem=case.problem, norms=norms).value < np.inf
    for refused in (
        lambda: closed_form("dq", contract, problem=case.problem, norms=norms),
        lambda: residual(contract, problem=case.problem, norms=norms),
    ):
        with pytest.raises(ContractError, match=r"gradients = false \(there is no dS\)"):
            refused()


# Faults that they find


def upward(fmt, x):
    """The format's number above each x: a cast that rounds up."""
    near = fmt.round(x.astype(np.float32)).astype(np.float64)
    gap = np.maximum(np.abs(near) * 2.0 ** -(fmt.mantissa_bits + 1), fmt.min_subnormal / 2)
    above = fmt.round((near + gap * 1.01).astype(np.float32)).astype(np.float64)
    return np.where(near < x, above, near)


def _ds_upward(internals):
    """Codes of dS are rounded up, under their own static scale."""
    return {"ds_cast": upward(E5M2, internals.ds * 256) / 256}


def _ds_amax(internals):
    """The same codes under the scale of the call's amax, four times too coarse."""
    return {"ds_cast": upward(E5M2, internals.ds / 2**14) * 2**14}


def _p_other_factor(internals):
    """Codes of 448 e are taken for codes of 256 e."""
    return {"weights": internals.weights * 448 / 256}


def _p_next(internals):
    """Codes of P are the next ones."""
    e = internals.p * internals.norm[..., None]
    return {"weights": upward(E4M3, upward(E4M3, e * 448) * (1 + 2.0**-10)) / 448}


def _do_upward(internals):
    """INT8 codes of dO are one more than they are."""
    unit = np.abs(internals.do).max(axis=(-1, -2), keepdims=True) / 127
    return {"do": internals.do + unit}


FAULTS = {
    "E5M2 dO, static dS": [(_ds_upward, "cast"), (_ds_amax, "cast")],
    "static P": [(_p_other_factor, "prob"), (_p_next, "prob")],
    "INT8 dO": [(_do_upward, "grad")],
}


@pytest.mark.parametrize(
    ("what", "fault", "term"), [(w, *row) for w, rows in FAULTS.items() for row in rows]
)
def test_a_wrong_cast_passes_its_term(what, fault, term):
    contract = contract_of(what, "stale")
    name = f"offset/kv-16{SMALL}"  # every dP* of a row, and every channel of O, has one sign
    _, internals, _ = run_of(contract, name)
    assert book_of(contract, name).margin(term).max() <= 1
    assert book_of(contract, name, **fault(internals)).margin(term).max() > 1


@pytest.mark.parametrize("word", ["fp16", "e4m3"])
def test_an_output_that_is_cut_passes_its_store(word):
    """One unit off where half a unit is allowed, in the direction of dO."""
    contract = get_contract(f"article:delta=stale,store={word}")
    name = f"gaussian/spread-1{SMALL}"
    case, _, outputs = run_of(contract, name)
    fmt = STORES[word].fmt
    o = outputs.o.astype(np.float64)
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(o), fmt.min_normal))) - fmt.mantissa_bits)
    moved = (o + unit * np.sign(case.inputs.do)).astype(np.float32)
    wrong = book_of(contract, name, outputs=replace(outputs, o=moved))
    assert book_of(contract, name).margin("out").max() <= 1 < wrong.margin("out").max()


@pytest.mark.parametrize("what", CONTRACTS)
def test_bounds_are_not_idle(what):
    """A bound a thousand times too wide would find nothing."""
    widest = {}
    for mode in ("stale", "matched", "shifted"):
        contract = contract_of(what, mode)
        for name in CASES:
            book = book_of(contract, name)
            for term in book.names:
                widest[term] = max(widest.get(term, 0.0), float(book.margin(term).max()))
    nothing = {"vmis": True, "grad": "BF16" in what, "out": "store=fp32" in CONTRACTS[what]}
    nothing["accdP"] = what in ("scales of 1", "powers of two")  # products of few bits are exact
    idle = {term for term, share in widest.items() if share < 1e-3}
    assert idle - {term for term, is_exact in nothing.items() if is_exact} == set(), widest
