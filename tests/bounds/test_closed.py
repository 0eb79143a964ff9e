"""Closed forms: above every error seen, attained within two, and made of what is proved."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.errors import ContractError, InputError
from dmverify.spec.arithmetic import Bits, Exact, Single
from dmverify.spec.attention import interpret
from dmverify.spec.bounds import (
    OUTPUTS,
    REFERENCES,
    ClosedForm,
    Term,
    closed_form,
    measure,
    residual,
    unit_sum_of_log_lse,
)
from dmverify.spec.bounds.errors import Errors
from dmverify.spec.bounds.residual import unit_sum
from dmverify.spec.contracts import CONTRACTS, DELTAS, DS_CASTS, get_contract
from dmverify.spec.ledger import ledger
from dmverify.spec.ledger.bounds.derived import is_derived
from dmverify.studies.bounds.attained import attained

SMALL = ",heads=1,kv_heads=1,queries=9,keys=20,head_dim=32@1"
CASES = ["gaussian/spread-4", "offset/kv-16"]


def contracts():
    for base in (name for name, c in CONTRACTS.items() if is_derived(c)):
        for number, mode in enumerate(DELTAS):
            changes = {"delta": mode, "ds_cast": DS_CASTS[number % 2]}
            if mode == "associated":
                changes["normaliser"] = "codes"
            yield get_contract(base, **changes)


def exact(case, contract):
    """Both references, in the mode that both article and bundled share exactly."""
    matched = replace(contract, delta="matched")
    for reference, casts in (("operands", frozenset({"operands"})), ("inputs", frozenset())):
        yield reference, interpret(matched, case.problem, case.inputs, Exact(casts)).values


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("base", ["article", "bundled"])
def test_no_error_exceeds_its_closed_form(name, base):
    case = generate(name + SMALL, contract=base)
    references = dict(exact(case, get_contract(base)))
    for contract in (c for c in contracts() if c.base == base):
        norms = measure(contract, case.problem, case.inputs)
        arithmetic = Bits() if base == "bundled" else Single()
        with np.errstate(all="ignore"):
            found = interpret(contract, case.problem, case.inputs, arithmetic).outputs
        for reference, values in references.items():
            for output in OUTPUTS:
                form = closed_form(
                    output, contract, problem=case.problem, norms=norms, reference=reference
                )
                seen = np.isfinite(values[output])
                error = np.abs(getattr(found, output) - values[output])[seen].max()
                assert 0 < error <= form.value, (contract.name, output, reference)


@pytest.mark.parametrize("name", ["gaussian/spread-1", "rows/gap-16", "positive-v/short"])
def test_no_row_sum_exceeds_its_closed_form(name):
    for contract in contracts():
        case = generate(f"{name},heads=1,kv_heads=1,queries=70,keys=130@2", contract=contract.name)
        norms = measure(contract, case.problem, case.inputs)
        arithmetic = Bits() if contract.bit_exact else Single()
        with np.errstate(all="ignore"):
            run = interpret(contract, case.problem, case.inputs, arithmetic, internals=True)
            book = ledger(
                contract,
                case.problem,
                inputs=case.inputs,
                internals=run.internals,
                outputs=run.outputs,
            )
        after = book.residual + book.values["cast"]
        for cast, sums in ((False, book.residual), (True, after)):
            form = residual(contract, problem=case.problem, norms=norms, cast=cast)
            assert np.abs(sums).max() <= form.value, (contract.name, form.output)


def test_constructed_inputs_attain_row_sums_within_two():
    """512 keys; so half of either bound would be wrong."""
    found = attained()
    assert {a.contract for a in found} == {"article", "article:delta=stale"}
    for one in found:
        assert 0.5 < one.share <= 1


def test_a_bound_is_its_terms_and_every_term_names_its_lemmas():
    contract = get_contract("article")
    case = generate(CASES[0] + SMALL, contract="article")
    norms = measure(contract, case.problem, case.inputs)
    for output in OUTPUTS:
        form = closed_form(output, contract, problem=case.problem, norms=norms)
        assert math.isclose(form.value, math.fsum(t.value for t in form.terms), rel_tol=1e-9)
        assert form.value >= math.fsum(t.value for t in form.terms)
        assert all(term.lemmas and term.value >= 0 for term in form.terms)


def test_row_sums_forget_the_lse_unless_a_kernel_saves_its_logarithm():
    """Moving every logit by c moves |LSE| and nothing that these contracts round."""
    contract = get_contract("bundled")
    case = generate(CASES[0] + SMALL, contract="bundled")
    norms = measure(contract, case.problem, case.inputs)
    far = replace(norms, k_mean=norms.k_mean * 1e6)
    assert unit_sum(Errors(contract, case.problem, norms, "operands")) == unit_sum(
        Errors(contract, case.problem, far, "operands")
    )
    near, high = (unit_sum_of_log_lse(x, entropy=4, keys=64) for x in (16.0, 4096.0))
    assert high > 20 * near


def test_a_saved_logarithm_attains_its_growth():
    """Uniform rows of n keys whose logits push L beyond a power of two: half an ulp is lost."""
    for exponent in (6, 9, 12):
        logit = np.float32(2.0**exponent)
        worst = 0.0
        for keys in range(3, 100):
            stored = np.float32(np.float64(logit) + np.log2(float(keys)))
            worst = max(worst, abs(1 - keys * np.exp2(np.float64(logit) - np.float64(stored))))
        bound = unit_sum_of_log_lse(2.0**exponent + 7, entropy=math.log2(100), keys=100)
        rest = unit_sum_of_log_lse(0.0, entropy=math.log2(100), keys=100)
        assert bound - rest < 2 * worst < 2 * bound


def test_zero_sum_is_never_much_above_plain_and_grows_with_tiles_only():
    plain, carried = (get_contract("article", ds_cast=cast) for cast in DS_CASTS)
    case = generate(CASES[0] + SMALL, contract="article")
    norms = measure(plain, case.problem, case.inputs)

    def cast(contract, keys, norms=norms):
        problem = replace(case.problem, keys=keys)
        terms = residual(contract, problem=problem, norms=norms, cast=True).terms
        return next(t.value for t in terms if t.name == "cast")

    for keys in (1, 64, 1024):
        assert cast(carried, keys) <= 1.1 * cast(plain, keys)
    assert cast(carried, 1) == pytest.approx(cast(carried, 64), rel=1e-2)


def test_what_is_refused():
    contract = get_contract("article")
    case = generate(CASES[0] + SMALL, contract="article")
    norms = measure(contract, case.problem, case.inputs)
    with pytest.raises(InputError, match="one of o, lse"):
        closed_form("x", contract, problem=case.problem, norms=norms)
    with pytest.raises(InputError, match="one of operands"):
        closed_form("o", contract, problem=case.problem, norms=norms, reference="y")
    assert REFERENCES == ("operands", "inputs")
    assert ClosedForm("o", "operands", (Term("a", 1.0, ("b",)),)).value >= 1


def test_contracts_without_closed_forms_are_refused():
    case = generate("gaussian/spread-1" + SMALL, contract="article")
    norms = measure(get_contract("article"), case.problem, case.inputs)
    others = [c for c in CONTRACTS.values() if not is_derived(c)]
    assert others
    for contract in others:
        with pytest.raises(ContractError):
            closed_form("o", contract, problem=case.problem, norms=norms)
        with pytest.raises(ContractError):
            residual(contract, problem=case.problem, norms=norms)
