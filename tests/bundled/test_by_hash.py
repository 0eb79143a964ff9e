"""The recorded hashes as a kernel: its numbers are the hardware's, or there are none."""

import dataclasses

import pytest

from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.false_alarms import RECORDED, list_jobs, search
from dmverify.conformance.families import generate
from dmverify.conformance.recordings.by_hash import ByHash
from dmverify.conformance.recordings.digests import digest_of
from dmverify.errors import RecordingError


@pytest.fixture(scope="module")
def kernel():
    return ByHash()


@pytest.fixture
def small(kernel):
    """A recorded case of few tokens."""
    key = next(key for key in kernel.cases if key[0].startswith("lengths/n1,queries=15,"))
    return generate(key[0], contract=key[1])


def test_its_answer_has_the_recorded_hashes(kernel, small):
    assert isinstance(kernel, Kernel)
    assert digest_of(kernel.backward(small)) == kernel.cases[small.id, small.contract]
    assert (kernel.forward(small).o == kernel.backward(small).o).all()
    assert "H200" in kernel.info.device


def test_what_was_not_returned_is_not_there(kernel):
    key = next(key for key in kernel.cases if key[0].startswith("lengths/no-keys,"))
    assert "delta" not in kernel.cases[key]
    assert kernel.backward(generate(key[0], contract=key[1])).delta is None


def test_other_cases_are_declined(kernel, small):
    assert isinstance(kernel.supports(dataclasses.replace(small, id="other")), Unsupported)


@pytest.mark.parametrize("change", ["dq", "missing", "more"])
def test_another_hash_gives_no_numbers(kernel, small, change):
    key = small.id, small.contract
    hashes = dict(kernel.cases[key])
    if change == "missing":
        del hashes["dk"]
    else:
        hashes[change] = "0" * 64
    wrong = ByHash(dataclasses.replace(kernel._digests, cases={key: hashes}))
    with pytest.raises(RecordingError, match=r"the hash of (dq|dk|more);"):
        wrong.backward(small)


def test_the_search_takes_every_recorded_case_and_a_wrong_hash_is_an_alarm(monkeypatch, kernel):
    jobs = list(list_jobs([RECORDED], 1))
    assert {(job.case, job.contract) for job in jobs} == kernel.cases.keys()
    one = next(job for job in jobs if "n1,queries=15," in job.case)
    found = search([one])
    assert found["alarms"] == []
    assert found["verdicts"]["dq"] == {"conforms": 1}
    key = one.case, one.contract
    hashes = kernel.cases[key] | {"dq": "0" * 64}
    bad = dataclasses.replace(kernel._digests, cases={key: hashes})
    monkeypatch.setattr("dmverify.conformance.false_alarms.ByHash", lambda: ByHash(bad))
    assert [alarm["check"] for alarm in search([one])["alarms"]] == ["run"]
