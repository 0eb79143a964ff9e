"""Certificates reject a wrong claim, a wrong model and a damaged record."""

import dataclasses
import json

import numpy as np
import pytest
from flint import arb, ctx

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


def changed(entry, *, bit, at=12345):
    """The certificate of a model with one changed value in every block."""

    def model(x):
        y = certificates.bits(entry.model(x)).copy()
        y[min(at, y.size - 1)] ^= y.dtype.type(1 << bit)
        return y.view(np.float32) if y.dtype == np.uint32 else y

    return dataclasses.replace(entry, model=model)


def middle(entry):
    """A block in the middle of the claim's interesting inputs: next to 1, or to 3 for lg2."""
    return 0x404 if entry.id == "lg2-error" else 0x3F8


@pytest.mark.parametrize("entry", CERTIFICATES, ids=lambda entry: entry.id)
def test_one_changed_bit_is_unlike_the_hardware(entry):
    block = middle(entry)
    assert check(entry, [block]).unlike_hardware == 0
    assert check(changed(entry, bit=0), [block]).unlike_hardware == 1


@pytest.mark.parametrize("entry", CERTIFICATES, ids=lambda entry: entry.id)
def test_one_changed_value_violates_the_claim(entry):
    """Apart from any digest: the error itself is seen."""
    block, high = middle(entry), 5 if entry.id.startswith("cvt") else 28
    assert check(entry, [block]).violations == 0
    assert check(changed(entry, bit=high), [block]).violations >= 1


@pytest.mark.parametrize("entry", CERTIFICATES, ids=lambda entry: entry.id)
def test_a_model_that_changed_since_its_record_is_not_proved(entry):
    """A random slice finds a change that every block shares; the record alone would not."""
    few = dataclasses.replace(changed(entry, bit=0), blocks=entry.blocks[-256:])
    run, seed = rerun(few, seed=5)
    assert (run.inputs, run.unlike_hardware, seed) == (certificates.BLOCK, 1, 5)


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


def test_a_slice_is_a_256th_of_the_claim():
    """Counted on a model that costs nothing; the digests differ in every block."""
    entry = dataclasses.replace(
        BY_ID["ex2-error"],
        model=np.zeros_like,
        error=lambda x, y: np.zeros(1),
        exact=lambda x, y: np.ones(1, np.bool_),
    )
    run, _ = rerun(entry, seed=1)
    assert run.inputs * certificates.SLICE == 2**32
    assert run.unlike_hardware > 0


def test_a_changed_model_is_not_proved():
    result = run_certificate(changed(NEAR_ONE, bit=0))
    assert (result.verdict, result.ok) == ("refuted", False)
    assert "1 blocks unlike the hardware" in result.detail


def exact_error(entry, x):
    """The claimed error of one input in ball arithmetic, as an interval of rationals."""
    ctx.prec = 160
    ball = arb(float(x))
    y = arb(float(np.float32(entry.model(np.array([x], np.float32))[0])))
    two = arb(2)
    error = {
        "ex2-error": lambda: y / two**ball - 1,
        "lg2-near-one": lambda: y - ball.log() / two.log(),
        "lg2-error": lambda: y * two.log() / ball.log() - 1,
        "rcp-error": lambda: y * ball - 1,
    }[entry.id]()
    return abs(error)


@pytest.mark.parametrize("name", ["ex2-error", "lg2-near-one", "lg2-error", "rcp-error"])
def test_the_worst_error_is_real_and_far_from_what_float64_loses(name):
    """Ball arithmetic at the worst input; float64's functions err by less than 2^-45."""
    entry, run = BY_ID[name], recorded(BY_ID[name])
    x = np.array([run.worst], np.uint32).view(np.float32)[0]
    error = exact_error(entry, x)
    constant, control = (arb(c.numerator) / c.denominator for c in (entry.constant, entry.control))
    assert control < error < constant
    assert abs(float(error.mid()) - run.error) < 2.0**-45
    assert float(entry.constant) - run.error > 2.0**-45
