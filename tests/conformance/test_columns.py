"""Column sums of dK: a wrong delta seen from outputs, a drift inside the intervals, another dS."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate, list_cases, list_families
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.lab.formats import Steps
from dmverify.spec.bounds.columns import column_bound
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16

SEEN = "constant-v/third@3"  # V alike for all keys: exact dS is 0, a wrong delta is not
BOTH = ("sum-dk", "columns")
LONG = 200  # tokens, at most
KERNELS = {"article": Simulation, "bundled": Emulator}


class Answers(Simulation):
    """Says matched, computes another delta; shows the inside of the matched one, or its own."""

    def __init__(self, delta: str, *, only_dk: bool = False) -> None:
        super().__init__()
        self.delta, self.only_dk = delta, only_dk

    def backward(self, case):
        other = super().backward(replace(case, contract=f"article:delta={self.delta}"))
        return replace(super().backward(case), dk=other.dk) if self.only_dk else other


def judged(kernel, case, check):
    (found,) = run(kernel, [case], checks=[CHECKS[check]], emit=ignore)
    return found


@pytest.mark.parametrize("delta", ["stale", "consistent"])
def test_another_delta_than_promised_is_seen_from_dk_alone(delta):
    case = generate(SEEN, contract="article")
    assert judged(Simulation(), case, "sum-dk").verdict is Verdict.CONFORMS
    found = judged(Answers(delta), case, "sum-dk")
    assert found.verdict is Verdict.FAILS
    assert found.margin > 2
    assert found.worst.output == "sum of dk"


def test_a_stale_delta_may_be_stale_where_that_is_the_contract():
    case = generate(SEEN, contract="article:delta=stale")
    assert judged(Simulation(), case, "sum-dk").verdict is Verdict.CONFORMS


@pytest.mark.parametrize("delta", ["stale", "consistent"])
def test_a_dk_of_another_ds_than_the_one_shown_is_rejected(delta):
    case = generate(SEEN, contract="article")
    assert judged(Simulation(), case, "columns").verdict is Verdict.CONFORMS
    found = judged(Answers(delta, only_dk=True), case, "columns")
    assert found.verdict is Verdict.FAILS
    assert found.worst.output == "sum of dk, product"


def test_a_drift_inside_every_interval_is_seen_where_no_order_is_known():
    """Every element of dK at the upper end of what any order may give: their sum drifts."""
    contract = get_contract("bundled")
    case = generate("gaussian/spread-16@3", contract="bundled")
    band = enclosure(contract, case.problem, case.inputs, order="free")["dk"]
    finite = np.isfinite(band.hi).all(axis=1)
    drifted = np.where(np.isfinite(band.hi), band.hi, 0.0)
    assert np.array_equal(BF16.round(drifted.astype(np.float32)), drifted)  # an answer in the band
    limit = column_bound(contract, case.problem, case.inputs).with_store(drifted)
    margin = (np.abs(drifted.sum(axis=1)) / limit)[finite]
    assert margin.max() > 2


def test_sums_of_dk_stay_inside_over_the_families():
    counted = 0
    for base, kernel in KERNELS.items():
        for family in list_families(on_demand=False):
            text = list_cases(family.name, seed=5)[0]
            case = generate(text, contract=f"{base}:delta=shifted")
            if max(case.problem.queries, case.problem.keys) > LONG:
                continue
            for check in BOTH:
                found = judged(kernel(), case, check)
                assert found.verdict in (Verdict.CONFORMS, Verdict.UNSUPPORTED), (text, found)
                counted += found.verdict is Verdict.CONFORMS
    assert counted > 50


def test_a_nan_is_left_open_and_a_contract_without_bounds_is_declined():
    case = generate("special/v-nan@0", contract="article")
    assert judged(Simulation(), case, "sum-dk").verdict is Verdict.UNSUPPORTED

    class Broken(Simulation):
        def backward(self, case):
            outputs = super().backward(case)
            dk = outputs.dk.copy()
            dk[0, 0, 0, 0] = np.nan
            return replace(outputs, dk=dk)

    found = judged(Broken(), generate(SEEN, contract="article"), "sum-dk")
    assert (found.verdict, found.open) == (Verdict.CONFORMS, 1)


FALLS = "distinct-scales/wide@700002"  # dS passes E5M2's largest number under its static factor


@pytest.mark.parametrize(
    ("case", "contract", "verdict"),
    [
        (FALLS, "article:do_format=e5m2,centre_k=none,ds_format=e5m2,ds_scale=256", "conforms"),
        (SEEN, "article:ds_format=e5m2", "conforms"),
        (SEEN, "article:store=fp16", "conforms"),
        (SEEN, "article:ds_format=e5m2,saturate=true", "fails"),
        (SEEN, "article", "fails"),
    ],
)
def test_an_infinite_sum_is_left_open_only_where_a_cast_or_a_store_may_give_it(
    case, contract, verdict
):
    class Infinite(Steps):
        contracts = (get_contract(contract).name,)

        def backward(self, case):
            outputs = super().backward(case)
            dk = outputs.dk.copy()
            dk[0, 0, 0, 0] = np.inf
            return replace(outputs, dk=dk)

    name = get_contract(contract).name
    kernel = Steps() if case == FALLS else Infinite()
    found = judged(kernel, generate(case, contract=name), "sum-dk")
    assert found.verdict.value == verdict
    assert found.open > 0 or verdict == "fails"
