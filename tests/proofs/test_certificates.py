"""Certificates reject a wrong claim, a wrong model and a damaged record."""

import dataclasses
import json

import numpy as np
import pytest

from dmverify.errors import RecordingError
from dmverify.proofs import CERTIFICATES, certificates, run_certificate
from dmverify.proofs.certificates import check, control_violated, record, recorded, rerun

BY_ID = {entry.id: entry for entry in CERTIFICATES}
NEAR_ONE = BY_ID["lg2-near-one"]


@pytest.mark.parametrize("entry", CERTIFICATES, ids=lambda entry: entry.id)
def test_the_control_is_violated_where_the_record_says(entry):
    run = recorded(entry)
    assert (run.violations, run.unlike_hardware) == (0, 0)
    block = run.worst // certificates.BLOCK
    assert check(entry, [block]).violations == 0
    assert check(entry, [block], constant=entry.control).violations > 0
    assert control_violated(entry, run)


def test_a_model_that_is_off_by_one_bit_is_unlike_the_hardware():
    def model(x):
        y = certificates.bits(NEAR_ONE.model(x)).copy()
        y[12345] ^= 1
        return y.view(np.float32)

    wrong = dataclasses.replace(NEAR_ONE, model=model)
    assert check(NEAR_ONE, [0x3F8]).unlike_hardware == 0
    assert check(wrong, [0x3F8]).unlike_hardware == 1


def test_shape_violations_are_counted():
    entry = BY_ID["ex2-error"]

    def model(x):
        y = entry.model(x).copy()
        y[1000] = y[1000 + 2**10]
        return y

    wrong = dataclasses.replace(entry, model=model)
    assert check(entry, [0x3F9]).violations == 0
    assert check(wrong, [0x3F9]).violations > 0


def test_reruns_are_random_and_reproducible():
    entry = dataclasses.replace(NEAR_ONE, blocks=range(0x3F0, 0x3F4))
    run, seed = rerun(entry)
    assert run.inputs == certificates.BLOCK
    assert rerun(entry, seed=seed) == (run, seed)


def test_record_and_damage(tmp_path):
    entry = dataclasses.replace(NEAR_ONE, blocks=range(0x3F0, 0x3F2))
    run = record(entry, directory=tmp_path)
    assert recorded(entry, directory=tmp_path) == run
    with pytest.raises(RecordingError):
        recorded(NEAR_ONE, directory=tmp_path)  # fewer inputs than the claim covers
    with pytest.raises(RecordingError):
        recorded(dataclasses.replace(entry, constant=entry.control), directory=tmp_path)
    path = tmp_path / f"{entry.id}.json"
    for text in ("", path.read_text()[:30], "{}"):
        path.write_text(text)
        with pytest.raises(RecordingError):
            recorded(entry, directory=tmp_path)


def test_a_record_with_violations_is_not_proved(tmp_path):
    content = json.loads((certificates.DIRECTORY / "lg2-near-one.json").read_text())
    (tmp_path / "lg2-near-one.json").write_text(json.dumps({**content, "violations": 1}))
    assert run_certificate(NEAR_ONE).verdict == "proved"
    result = run_certificate(NEAR_ONE, directory=tmp_path)
    assert (result.verdict, result.ok) == ("refuted", False)
    assert "record: 1 violations" in result.detail


def test_a_missing_record_is_not_proved(tmp_path):
    result = run_certificate(NEAR_ONE, directory=tmp_path)
    assert (result.verdict, result.control, result.ok) == ("unknown", "unknown", False)
    assert "lg2-near-one" in result.detail


def test_missing_hardware_digests_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(certificates, "HARDWARE", tmp_path / "functions.npz")
    with pytest.raises(RecordingError):
        certificates.hardware_digests("ex2_ftz")
