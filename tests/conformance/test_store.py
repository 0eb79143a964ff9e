"""Recordings on disk: exact round trips, and every kind of damage noticed and named."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance import store
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.load import load
from dmverify.conformance.questions import examine
from dmverify.conformance.store import ANSWERS, FOOTER, MANIFEST, answer_path, seal
from dmverify.errors import InputError, RecordingError
from dmverify.spec.recording import Part, Provenance, Recording, Unanswered

WHOLE, BARE = ("lengths/q17-k129@0", "article"), ("lengths/n1@0", "article")
LEFT = ("lengths/n2@0", "article")


def record(answers, **more):
    keys = [*answers, *more.get("unanswered", {})]
    producer = Provenance("simulation", source="ab", flags=("-O3", "-x"), device="cpu")
    return Recording(producer, examine(keys), answers, **more)


@pytest.fixture(scope="module")
def recording():
    found = {key: Simulation().backward(generate(key[0], contract=key[1])) for key in (WHOLE, BARE)}
    found[BARE] = replace(found[BARE], delta=None)
    why = {LEFT: Unanswered("timeout", "no answer in 3 s")}
    return record(found, unanswered=why, parts={BARE: Part((0,), {"o": "0" * 64})})


@pytest.fixture
def saved(recording, tmp_path):
    return store.save(recording, tmp_path / "one")


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_a_recording_comes_back_bit_for_bit(recording, saved):
    found = load(saved)
    for name in ("producer", "asked", "unanswered", "parts"):
        assert getattr(found, name) == getattr(recording, name)
    assert found.contracts.keys() == {"article"}
    assert dict(found.answers).keys() == recording.answers.keys()
    for key, due in recording.answers.items():
        got = found.answers[key]
        assert dict(got.items()).keys() == dict(due.items()).keys()
        assert all(same(array, getattr(due, name)) for name, array in got.items())


def test_special_values_come_back(tmp_path):
    key = "special/q-nan@0", "article"
    outputs = Simulation().backward(generate(key[0], contract=key[1]))
    lse = outputs.lse.copy()
    lse[0, 0, :3] = -np.inf, -0.0, np.uint32(0x7F800001).view(np.float32)  # a signalling NaN
    outputs = replace(outputs, lse=lse)
    path = store.save(record({key: outputs}), tmp_path / "r")
    found = load(path).answers[key]
    assert all(same(a, getattr(outputs, name)) for name, a in found.items())


def test_bf16_numbers_take_two_bytes(saved, recording):
    content = answer_path(saved, WHOLE).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert (header["o"]["dtype"], header["lse"]["dtype"]) == ("BF16", "F32")


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def no_footer(path):
    (path / FOOTER).unlink()


def cut_answer(path):
    file = answer_path(path, WHOLE)
    file.write_bytes(file.read_bytes()[:-100])


def change_answer(path):
    flip(answer_path(path, WHOLE), -1)


def no_answer(path):
    answer_path(path, BARE).unlink()


def change_manifest(path):
    file = path / MANIFEST
    file.write_text(file.read_text().replace("article", "bundled"))


def other_version(path):
    rewrite(path, lambda manifest: manifest.update(version=99))


def fewer_answers(path):
    rewrite(path, lambda manifest: manifest["answers"].pop())


def no_json(path):
    (path / FOOTER).write_text("{")


def no_object(path):
    (path / FOOTER).write_text("[]")


def rewrite(path, change):
    """A careful forger, who also fixes the footer's hash."""
    manifest = json.loads((path / MANIFEST).read_text())
    change(manifest)
    text = json.dumps(manifest).encode()
    (path / MANIFEST).write_bytes(text)
    footer = json.loads((path / FOOTER).read_text())
    (path / FOOTER).write_text(json.dumps(footer | {"manifest_sha256": seal(text).sha256}))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (no_footer, "truncated"),
        (cut_answer, "the answer to ('lengths/q17-k129@0', 'article')"),
        (change_answer, "the answer to ('lengths/q17-k129@0', 'article')"),
        (no_answer, "the answer to ('lengths/n1@0', 'article')"),
        (change_manifest, "manifest.json"),
        (other_version, "version 99"),
        (fewer_answers, "promises 2 answers, not 1"),
        (no_json, "footer.json"),
        (no_object, "footer.json"),
    ],
)
def test_damage_is_noticed_and_named(saved, damage, says):
    damage(saved)
    with pytest.raises(RecordingError, match=r"fix: ") as caught:
        load(saved)
    assert says in str(caught.value)
    assert caught.value.exit_code == 3


def test_an_answer_that_changes_after_loading_is_noticed(saved):
    found = load(saved)
    change_answer(saved)
    with pytest.raises(RecordingError, match="another SHA-256"):
        found.answers[WHOLE]


def test_a_missing_recording_is_an_error(tmp_path):
    with pytest.raises(RecordingError, match="a directory that exists; fix: check the path"):
        load(tmp_path / "nowhere")


def test_nothing_is_overwritten(recording, saved):
    with pytest.raises(InputError, match="never overwritten"):
        store.save(recording, saved)
    load(saved)


def test_a_failed_save_leaves_nothing(recording, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store, "_answer_row", fail)
    with pytest.raises(OSError, match="disk full"):
        store.save(recording, tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


def test_two_saves_have_the_same_bytes(recording, saved, tmp_path):
    other = store.save(recording, tmp_path / "two")
    for path in saved.rglob("*"):
        if path.is_file():
            assert (other / path.relative_to(saved)).read_bytes() == path.read_bytes()
    assert len(list((saved / ANSWERS).iterdir())) == 2
