"""What may be NaN is NaN or a number of an interval: kernels that differ in what they do with NaN.

The conforming kernels below give NaN for a code that overflows, or 448; their amax propagates a NaN
or drops it. A wrong kernel returns numbers that a wholly open element would have let through.
"""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.spec.arithmetic import Single
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import DELTAS, DS_CASTS, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.studies.bounds.extreme_cases import extreme_case

CASES = ["gaussian/spread-64@0", "logit-size/logits-1e2@1", "tiny-amax/far-keys-95@0"]


class DropsNan(Single):
    """fmax: a maximum that ignores a NaN."""

    def max(self, a, axis):
        return np.fmax.reduce(a, axis=axis, keepdims=True)


def answers(contract, case):
    for arithmetic in (Single(), DropsNan()):
        for saturate in (False, True):
            made = replace(contract, saturate=saturate)
            with np.errstate(all="ignore"):
                yield interpret(made, case.problem, case.inputs, arithmetic).outputs


def sets(band):
    return band.may_nan & ~band.must_nan & np.isfinite(band.hi)


def contract_of(mode, ds_cast="nearest", base="article"):
    extra = {"normaliser": "codes"} if mode == "associated" else {}
    return get_contract(base, delta=mode, ds_cast=ds_cast, **extra)


def outside(contract, case):
    """(kernels' elements outside, elements that are sets)."""
    bands = enclosure(contract, case.problem, case.inputs)
    bad = 0
    for outputs in answers(contract, case):
        for name, got in outputs.items():
            band = bands[name]
            bad += int((compare(got, band).margin > 1).sum())
            bad += int((np.isnan(got) & ~band.may_nan).sum())
    return bad, sum(int(sets(band).sum()) for band in bands.values())


@pytest.mark.parametrize("ds_cast", DS_CASTS)
@pytest.mark.parametrize("mode", DELTAS)
@pytest.mark.parametrize("name", CASES)
def test_no_conforming_kernel_is_outside(name, mode, ds_cast):
    contract = contract_of(mode, ds_cast)
    bad, some = outside(contract, generate(name, contract=contract.name))
    assert bad == 0
    assert some > 0


def test_no_conforming_kernel_is_outside_at_the_ends_of_inputs():
    seen = 0
    for number in range(160):
        case, contract = extreme_case(number, seed=5)
        if contract.base != "bundled":
            bad, some = outside(contract, case)
            assert bad == 0, case.id
            seen += some
    assert seen > 100


@pytest.mark.parametrize("name", CASES)
def test_o_is_narrow_where_its_codes_may_overflow(name):
    case = generate(name, contract="article")
    band = enclosure(get_contract("article"), case.problem, case.inputs)["o"]
    some = sets(band)
    assert some.any()
    assert (band.hi - band.lo)[some].max() < 0.05
    assert np.isfinite(band.hi).all()


@pytest.mark.parametrize("name", CASES)
def test_any_number_is_no_answer_there(name):
    """12352 for 0.112 was accepted."""
    case = generate(name, contract="article")
    band = enclosure(get_contract("article"), case.problem, case.inputs)["o"]

    class Anything(Simulation):
        def backward(self, case):
            outputs = super().backward(case)
            return replace(outputs, o=np.where(sets(band), np.float32(12352), outputs.o))

    for kernel, due in ((Simulation(), Verdict.CONFORMS), (Anything(), Verdict.FAILS)):
        (found,) = run(kernel, [case], checks=[CHECKS["o"]], emit=ignore)
        assert found.verdict is due


def test_a_nan_is_an_answer_there_and_nowhere_else():
    case = generate(CASES[0], contract="article")
    bands = enclosure(get_contract("article"), case.problem, case.inputs)
    band = bands["o"]
    got = np.where(sets(band), np.float32(np.nan), band.mid.astype(np.float32))
    assert (compare(got, band).margin[sets(band)] == 0).all()
    assert not compare(got, band).open.any()
    lse = np.full_like(bands["lse"].mid, np.nan, dtype=np.float32)
    assert (compare(lse, bands["lse"]).margin > 1).all()
