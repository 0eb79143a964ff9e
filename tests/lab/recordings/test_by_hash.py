"""The recorded hashes as a kernel: its numbers are the hardware's, or there are none."""

import dataclasses
import json
from collections import Counter

import pytest

from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.errors import RecordingError
from dmverify.lab.acceptance.flag_sets import RISING, SUBJECTS
from dmverify.lab.false_positives import ALARMS, RECORDED, list_jobs, search
from dmverify.lab.recordings.by_hash import ByHash
from dmverify.lab.recordings.digests import Digests, digest_of, shortened
from dmverify.lab.recordings.shipped import DATA, expected
from dmverify.spec.recording import Provenance


@pytest.fixture(scope="module")
def kernel():
    return ByHash()


@pytest.fixture
def small(kernel):
    """A recorded case of few tokens."""
    key = next(key for key in kernel.cases if key[0].startswith("lengths/n1"))
    return generate(key[0], contract=key[1])


def test_its_answer_has_the_recorded_hashes(kernel, small):
    assert isinstance(kernel, Kernel)
    found = shortened(digest_of(kernel.backward(small)))
    assert found == kernel.cases[small.id, small.contract]
    assert (kernel.forward(small).o == kernel.backward(small).o).all()
    assert "H200" in kernel.info.device


def test_what_was_not_returned_is_not_there(kernel):
    key = next(key for key in kernel.cases if key[0].startswith("lengths/no-keys"))
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
        hashes[change] = "1" * 32
    wrong = ByHash(dataclasses.replace(kernel._digests, cases={key: hashes}))
    with pytest.raises(RecordingError, match=r"the hash of (dq|dk|more);"):
        wrong.backward(small)


def test_the_search_takes_every_recorded_case_and_a_wrong_hash_is_an_alarm(monkeypatch, kernel):
    jobs = list(list_jobs([RECORDED], len(kernel.cases)))
    asked = {(job.case, job.contract) for job in jobs}
    assert asked == set(kernel.cases)
    cells = Counter(job.cell for job in list_jobs([RECORDED], 2))
    assert cells.keys() == {job.cell for job in jobs}
    assert max(cells.values()) == 2
    one = next(job for job in jobs if job.case.startswith("lengths/n1"))
    found = search([one])
    assert found["alarms"] == []
    assert found["verdicts"]["dq"] == {"conforms": 1}
    key = one.case, one.contract
    hashes = kernel.cases[key] | {"dq": "1" * 32}
    bad = dataclasses.replace(kernel._digests, cases={key: hashes})
    monkeypatch.setattr("dmverify.lab.false_positives.ByHash", lambda: ByHash(bad))
    assert [alarm["check"] for alarm in search([one])["alarms"]] == ["run"]


def test_what_fourteen_builds_answered_is_no_alarm():
    """The hash is of the default build; the others differed from it in no bit of six cases."""
    flags = json.loads((DATA / "acceptance" / "flags.json").read_text())
    assert {(row["cases"], row["differ"]) for row in flags["rows"]} == {(len(SUBJECTS), 0)}
    assert len(flags["rows"]) == 14
    cases = [generate(case, contract=contract) for case, contract in (*SUBJECTS, RISING)]
    hashes = {(case.id, case.contract): digest_of(expected(case)) for case in cases}
    answered = Digests(Provenance("bundled"), hashes)
    assert answered.sha256 == flags["bits"]
    for case in cases:
        checks = [check for check in CHECKS.values() if check.needs != "kernel"]
        found = run(ByHash(answered), [case], checks=checks, emit=ignore, use_bits=False)
        assert not [finding for finding in found if finding.verdict in ALARMS]
        assert {f.check for f in found if f.verdict is Verdict.CONFORMS} >= {"o", "dq", "dk", "dv"}
