"""Causes: whole, recomputed, right on seeds and shapes that the data do not have."""

import json
from dataclasses import replace
from importlib.resources import files

import pytest

import dmverify
from dmverify.conformance import causes
from dmverify.conformance.causes import likely_causes
from dmverify.conformance.causes.features import words_of
from dmverify.conformance.causes.rank import DATA, SHOWN, read, signatures
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.lab.mutants import MUTANTS, numeric
from dmverify.lab.mutants.signatures import (
    EMULATOR,
    MADE,
    renewed,
    score,
    to_json,
    unseen,
    unseen_cases,
)
from dmverify.lab.mutants.simulated import asked

SHIPPED = json.loads(files(causes).joinpath(DATA).read_text())
EVERY = 4  # faults of the sample that is measured here
MADE_AGAIN = ("zeros", "q-divided", "delta-stale", "ds-ties-up", "mask-top-left", "last-call")


def test_the_data_hold_every_fault_and_cause():
    known = {row["fault"] for row in SHIPPED["signatures"]}
    assert known == set(EMULATOR.made), "dmverify lab signatures write MUTANT"
    assert SHIPPED["causes"] == to_json([])["causes"]
    assert SHIPPED["checks"] == to_json([])["checks"]


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_signatures_made_again_are_those_that_ship(name):
    assert renewed(SHIPPED, [MUTANTS[name]]) == SHIPPED


def test_data_that_say_something_else_are_renewed():
    rows = [row for row in SHIPPED["signatures"] if row["fault"] != "zeros"]
    gone = SHIPPED["signatures"][0] | {"fault": "no-mutant"}
    stale = SHIPPED | {"signatures": [*rows, gone]}
    made = renewed(stale, [MUTANTS["zeros"]])
    assert {row["fault"] for row in made["signatures"]} == set(EMULATOR.made)
    assert len(made["signatures"]) == len(SHIPPED["signatures"])


def test_unseen_cases_are_not_in_the_data():
    shipped = {row["case"] for row in SHIPPED["signatures"]}
    assert not shipped & {case for mutant in MADE for case in unseen_cases(mutant)}


def test_the_true_fault_is_among_the_first_three():
    samples = unseen(MADE[::EVERY])
    for by_bits in (True, False):
        judged = [sample for sample in samples if sample.by_bits is by_bits]
        for outputs_only in (True, False):
            found = score(signatures(), judged, outputs_only=outputs_only)
            assert found.faults >= 20
            assert found.by_fault >= 0.8 * found.faults, found.missed
            assert found.by_cause >= 0.8 * found.faults, found.missed


def test_data_of_other_faults_are_not_right():
    """Were the words to say nothing, or the data to be another fault's, the score would show it."""
    samples = [sample for sample in unseen(MADE[::EVERY]) if sample.by_bits]
    known = signatures()
    shuffled = replace(known, faults=(*known.faults[100:], *known.faults[:100]))
    assert score(shuffled, samples).by_cause < 0.3 * len(samples)


def test_wrong_kernels_of_another_contract_hear_their_cause():
    """They are another program, judged by another contract, and took no part in the data."""
    both = [name for name in numeric.MUTATIONS if MUTANTS[name].cause]
    right = 0
    for name in both:
        kernel, cases = asked(name)
        found = likely_causes(dmverify.verify(kernel, cases=[case.id for case in cases]).findings)
        assert len(found) == SHOWN
        assert all(0 <= one.likeness <= 1 for one in found)
        right += MUTANTS[name].cause in [one.id for one in found]
    assert len(both) >= 17
    assert right >= 0.8 * len(both)


def test_what_conforms_has_no_cause():
    report = dmverify.verify("simulation", cases=["lengths/q17-k129@0"])
    assert report.to_json()["causes"] == []
    assert likely_causes(report.findings) == ()


def test_what_no_seeded_fault_is_judged_by_has_no_cause():
    assert likely_causes([Finding("batch", "a@0", Verdict.FAILS, 2.0)]) == ()
    assert likely_causes([Finding("o", "a@0", Verdict.ERROR)]) == ()


def test_a_failure_that_is_expected_has_no_cause():
    report = dmverify.verify(numeric.ScaleTwice(), cases=["gaussian/spread-2@0"], checks=["dk"])
    (subject,) = report.subjects
    assert subject.causes
    known = tuple(replace(finding, expected="known") for finding in subject.findings)
    assert replace(subject, findings=known).causes == ()


def test_likeness_counts_only_checks_that_judged():
    words = words_of([Finding("lse", "a@0", Verdict.FAILS, 2.0)])
    data = to_json([])
    data |= {"words": ["lse", "o"], "signatures": []}
    for fault, has in (("lse-base-2", [0]), ("zeros", [0, 1])):
        data["signatures"].append({"fault": fault, "words": has})
    known = read(data)
    both = causes.rank.likeness(known, words, {"lse", "o"})
    only = causes.rank.likeness(known, words, {"lse"})
    assert both[0] == only[0] == only[1] == 1
    assert both[1] < 1
    assert MUTANTS["zeros"].cause == "zeros"
