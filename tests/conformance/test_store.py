"""Recordings on disk: exact round trips, and every kind of damage noticed and named."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance import store
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import InputError, RecordingError
from dmverify.spec.recording import Answer, Producer, Recording


@pytest.fixture(scope="module")
def recording():
    case = generate("lengths/q17-k129@0", contract="article")
    kernel = Simulation()
    whole = Answer(case.id, case.contract, kernel.backward(case), kernel.internals(case))
    bare = Answer(case.id, case.contract, replace(kernel.backward(case), delta=None))
    producer = Producer("simulation", source="ab", flags=("-O3", "-x"), device="cpu")
    return Recording(producer, (whole, bare), {"why": "test"})


@pytest.fixture
def saved(recording, tmp_path):
    return store.save(recording, tmp_path / "one")


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_a_recording_comes_back_bit_for_bit(recording, saved):
    found = store.load(saved)
    assert (found.producer, found.notes) == (recording.producer, recording.notes)
    for got, due in zip(found.answers, recording.answers, strict=True):
        assert (got.case_id, got.contract) == (due.case_id, due.contract)
        assert dict(got.outputs.items()).keys() == dict(due.outputs.items()).keys()
        assert all(same(a, getattr(due.outputs, name)) for name, a in got.outputs.items())
    got, due = found.answers[0].internals, recording.answers[0].internals
    assert got.norm_divides is due.norm_divides
    assert all(same(x, getattr(due, n)) for n, x in vars(got).items() if n != "norm_divides")
    assert found.answers[1].internals is None


def test_special_values_come_back(tmp_path):
    case = generate("special/q-nan@0", contract="article")
    outputs = Simulation().backward(case)
    lse = outputs.lse.copy()
    lse[0, 0, :3] = -np.inf, -0.0, np.uint32(0x7F800001).view(np.float32)  # a signalling NaN
    outputs = replace(outputs, lse=lse)
    answer = Answer(case.id, "article", outputs)
    path = store.save(Recording(Producer("k"), (answer,)), tmp_path / "r")
    found = store.load(path).answers[0].outputs
    assert all(same(a, getattr(outputs, name)) for name, a in found.items())


def test_bf16_numbers_take_two_bytes(saved):
    entries = json.loads((saved / "manifest.json").read_text())["tensors"]
    assert entries["0/o"]["stored"] == "uint16"
    assert entries["0/lse"]["stored"] == "float32"
    assert entries["0/internals/p"]["stored"] == "float64"


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def no_footer(path):
    (path / "footer.json").unlink()


def cut_tensors(path):
    file = path / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def change_tensor(path):
    flip(path / "tensors.safetensors", -1)


def change_manifest(path):
    file = path / "manifest.json"
    file.write_text(file.read_text().replace("article", "bundled"))


def other_version(path):
    rewrite(path, lambda manifest: manifest.update(version=99))


def fewer_tensors(path):
    rewrite(path, lambda manifest: manifest["tensors"].pop("1/dq"))


def fewer_answers(path):
    rewrite(path, lambda manifest: manifest["answers"].pop())


def no_json(path):
    (path / "footer.json").write_text("{")


def no_object(path):
    (path / "footer.json").write_text("[]")


def rewrite(path, change):
    """A careful forger, who also fixes the footer's hash."""
    import hashlib

    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    text = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(text)
    footer = json.loads((path / "footer.json").read_text())
    footer["manifest_sha256"] = hashlib.sha256(text).hexdigest()
    (path / "footer.json").write_text(json.dumps(footer))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (no_footer, "truncated"),
        (cut_tensors, "tensors.safetensors"),
        (change_tensor, "tensor '"),
        (change_manifest, "manifest.json"),
        (other_version, "version 99"),
        (fewer_tensors, "tensor '1/dq'"),
        (fewer_answers, "promises 2 answers, not 1"),
        (no_json, "footer.json"),
        (no_object, "footer.json"),
    ],
)
def test_damage_is_noticed_and_named(saved, damage, says):
    damage(saved)
    with pytest.raises(RecordingError, match=r"fix: ") as caught:
        store.load(saved)
    assert says in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_missing_recording_is_an_error(tmp_path):
    with pytest.raises(RecordingError, match="a directory that exists; fix: check the path"):
        store.load(tmp_path / "nowhere")


def test_nothing_is_overwritten(recording, saved):
    with pytest.raises(InputError, match="never overwritten"):
        store.save(recording, saved)
    store.load(saved)


def test_a_failed_save_leaves_nothing(recording, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store, "_describe", fail)
    with pytest.raises(OSError, match="disk full"):
        store.save(recording, tmp_path / "one")
    assert list(tmp_path.iterdir()) == []
