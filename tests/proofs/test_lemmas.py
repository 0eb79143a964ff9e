"""Every lemma is proved by two means and its control refuted; every certificate stands."""

import pytest

from dmverify import proofs
from dmverify.errors import InputError, UnknownNameError

PATIENT = 86400.0  # seconds: what a solver can prove is proved, however slow the machine is


@pytest.mark.parametrize("lemma_id", [entry.id for entry in proofs.all_lemmas()])
def test_lemma_is_proved_and_its_control_refuted(lemma_id):
    (result,) = proofs.prove([lemma_id], timeout=PATIENT)
    assert result.verdict == "proved", result.detail
    assert result.control == "refuted", result.detail
    assert result.solvers[0] == "z3"
    assert len(result.solvers) >= 2
    assert result.detail == ""
    assert result.witness is not None


@pytest.mark.parametrize("certificate_id", [entry.id for entry in proofs.CERTIFICATES])
def test_certificate_stands(certificate_id):
    (result,) = proofs.prove([certificate_id])
    assert (result.verdict, result.control) == ("proved", "refuted"), result.detail
    assert len(result.solvers) == 2


def test_at_least_forty_lemmas_with_distinct_ids():
    ids = proofs.known_ids()
    assert len(proofs.all_lemmas()) >= 40
    assert len(set(ids)) == len(ids)


def test_results_are_plain_data_and_a_table():
    import json

    results = proofs.prove(["e4m3-grid", "rn-error"])
    record = json.loads(json.dumps([result.to_json() for result in results]))
    required = {"id", "statement", "verdict", "solvers", "control", "seconds"}
    assert all(required <= entry.keys() for entry in record)
    text = proofs.table(results)
    assert "e4m3-grid" in text
    assert text.endswith("2 of 2 proved by two means with their controls refuted")


def test_unknown_ids_and_timeouts_are_refused():
    with pytest.raises(UnknownNameError):
        proofs.prove(["e4m3-grid", "no-such-lemma"])
    with pytest.raises(InputError):
        proofs.prove(["e4m3-grid"], timeout=0)
