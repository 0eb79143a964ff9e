"""What ships of the H200: it answers what the plan asks, and a little of it is replayed here.

All of it: 'make replay'.
"""

import pytest

from dmverify.conformance.families import problem_of
from dmverify.conformance.verdict import Verdict
from dmverify.kernel.build import HEAD_DIMS
from dmverify.lab.recordings import DATA, load_digests
from dmverify.lab.recordings.plan import CONTRACTS, is_added, plan, tenth
from dmverify.lab.recordings.replayed import LATER, chosen, replay_recorded, unrecorded
from dmverify.lab.recordings.shipped import DIGESTS


@pytest.fixture(scope="module")
def digests():
    return load_digests(DATA / DIGESTS)


def test_it_is_of_an_h200_and_small(digests):
    assert "H200" in digests.producer.device
    assert (DATA / DIGESTS / "manifest.json").stat().st_size < 3_000_000
    assert digests.inputs.keys() == digests.cases.keys() | digests.unserved.keys()
    assert not digests.cases.keys() & digests.unserved.keys()


@pytest.mark.parametrize("part", ["smoke", "full", "random", "core"])
def test_every_pair_that_the_kernel_serves_is_answered(part):
    missing = {key: why for key, why in unrecorded().items() if why != LATER}
    asked = [key for key in plan([part]) if key in missing]
    assert [key for key in asked if problem_of(key[0]).head_dim in HEAD_DIMS] == []
    assert all(missing[key].startswith("head_dim") for key in asked)


def test_what_was_added_since_is_listed_and_has_no_answer(digests):
    added = {key for key, why in unrecorded().items() if why == LATER}
    assert added == {key for key in plan() if is_added(key)}
    assert not any(is_added(key) for key in digests.cases)


def test_every_family_was_asked_under_every_mode_and_cast(digests):
    met = {(case.partition("/")[0], contract) for case, contract in digests.cases}
    families = {family for family, _ in met}
    assert met == {(family, contract) for family in families for contract in CONTRACTS}


def test_ten_runs_in_a_row_replay_all_of_it(digests):
    parts = ("smoke", "core")
    taken = {key for run in range(41, 51) for key in chosen(digests, parts, run)}
    assert taken == set(digests.cases) & set(plan())
    one = set(chosen(digests, (), 41))
    assert one == {key for key in tenth(plan(("full", "random")), 41) if key in digests.cases}


def test_a_few_pairs_agree_with_the_specification(digests):
    """One small pair of each contract; 'make replay-part' takes hundreds, 'make replay' all."""
    few = {}
    for key in digests.cases:
        problem = problem_of(key[0])
        if 0 < problem.batch * problem.heads * problem.queries * problem.keys < 10_000:
            few.setdefault(key[1], key)
    assert len(few) == 12
    findings = replay_recorded(digests, tuple(few.values()))
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}


def test_a_nan_in_a_tile_that_nobody_visits_is_as_the_card_answered(digests):
    """Three kinds of delta; what the specification had wrong."""
    keys = [
        key
        for key in digests.cases
        if key[0].startswith(("special/v-nan", "special/v-inf", "random/v-special"))
    ]
    deltas = [key for key in keys if problem_of(key[0]).queries < 140][::20]
    findings = replay_recorded(digests, deltas)
    assert len(findings) >= 3
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}
