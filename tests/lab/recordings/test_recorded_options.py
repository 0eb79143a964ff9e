"""What an H200 answered under the contracts that choose centring and normaliser: a little of it."""

import pytest

from dmverify.conformance.families import problem_of
from dmverify.conformance.verdict import Verdict
from dmverify.lab.recordings import DATA, load_digests
from dmverify.lab.recordings.plan import CONTRACTS
from dmverify.lab.recordings.replayed import replay_recorded
from dmverify.lab.recordings.shipped import DIGESTS, judge_digests
from dmverify.spec.contracts import get_contract

KNOWN = {"bundled", "bundled:delta=associated"}


@pytest.fixture(scope="module")
def digests():
    return load_digests(DATA / "options" / DIGESTS)


def test_every_new_choice_was_asked_in_every_head_dim(digests):
    stated = {name: get_contract(name) for _, name in digests.cases}
    new = {name: c for name, c in stated.items() if name not in KNOWN}
    assert not new.keys() & set(CONTRACTS)
    assert {(c.centre_k, c.normaliser) for c in new.values()} == {
        ("none", "codes"),
        ("blocked-mean", "unrounded"),
        ("none", "unrounded"),
    }
    for choice in ("centre_k", "normaliser"):
        dims = {
            problem_of(case).head_dim
            for case, name in digests.cases
            if getattr(stated[name], choice) in ("none", "unrounded")
        }
        assert dims >= {64, 128, 256}
    assert "H200" in digests.producer.device


def test_a_few_agree_with_the_specification_and_with_no_other_contract(digests):
    """A small pair of each contract; 'dmverify lab replay --data' takes them all."""
    few = {}
    for key in (key for key in digests.cases if key[0].startswith("gaussian/")):
        p = problem_of(key[0])
        size = p.batch * p.heads * p.queries * p.keys
        if size and size < few.get(key[1], (1 << 40,))[0]:
            few[key[1]] = (size, key)
    keys = tuple(key for _, key in few.values())
    assert {name for _, name in keys} == {name for _, name in digests.cases}
    assert {f.verdict for f in replay_recorded(digests, keys)} == {Verdict.CONFORMS}
    for case, name in keys:
        if name in KNOWN:
            continue
        other = get_contract(name, centre_k="blocked-mean", normaliser="codes").name
        moved = type(digests)(
            digests.producer,
            {(case, other): digests.cases[case, name]},
            {(case, other): digests.inputs[case, name]},
        )
        assert judge_digests((case, other), moved).verdict is Verdict.FAILS
