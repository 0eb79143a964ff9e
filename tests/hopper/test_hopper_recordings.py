"""The specification against what an H200 answered, bit for bit; and the recordings' own safety."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dmverify.errors import RecordingError
from dmverify.lab.probes import model, recordings
from dmverify.lab.probes.forms import FORMS, all_tiles, families
from dmverify.lab.probes.replay import (
    replay_arith,
    replay_blocks,
    replay_functions,
    replay_wgmma,
)
from dmverify.lab.probes.texts import text_hash, texts
from dmverify.lab.probes.wgmma_source import Form
from dmverify.spec.formats import E4M3
from dmverify.spec.machine.hopper import mufu_interpolator
from dmverify.spec.machine.hopper.wgmma_reference import Codes, Datapath, finite_step

BLOCKS = (0x3F8, 0x400, 0x003, 0x7F4, 0x7F9, 0xBF5)


@pytest.mark.parametrize("replay", [replay_functions, replay_arith])
def test_functions_agree_with_the_recordings(replay):
    results = list(replay())
    assert len(results) >= 8
    assert [r for r in results if r.mismatches] == []


def test_wgmma_agrees_with_the_recordings():
    results = list(replay_wgmma())
    assert sum(r.outputs for r in results) >= 200_000
    assert [r for r in results if r.mismatches] == []


def test_blocks_of_the_exhaustive_sweeps_have_the_recorded_hashes():
    results = list(replay_blocks(blocks=BLOCKS))
    assert len(results) == len(BLOCKS) * len(model.UNARY)
    assert [r for r in results if r.mismatches] == []


def test_forms_that_must_not_matter_do_not():
    """Commit groups and the source of A leave every recorded bit as it is."""
    arrays = recordings.load("wgmma")
    for form in FORMS:
        plain = replace(form, commit="one", a_from="smem").name
        if form.name != plain and f"{plain}/d" in arrays:
            same = [
                np.array_equal(arrays[f"{form.name}/{x}"], arrays[f"{plain}/{x}"]) for x in "abcd"
            ]
            assert all(same), form.name


@pytest.mark.parametrize(
    "wrong",
    [
        Datapath(fraction_bits=12),
        Datapath(fraction_bits=14),
        Datapath(output_bits=24),
        Datapath(group=16),
    ],
)
def test_wrong_datapaths_are_refuted(wrong):
    arrays, form = recordings.load("wgmma"), Form()
    i = families(form).index("random")
    a, b, c, d = (arrays[f"{form.name}/{x}"][i] for x in "abcd")
    left, right = Codes(a, E4M3), Codes(b, E4M3)
    due = finite_step(left, right, c.view(np.float32))
    assert np.array_equal(due.view(np.uint32), d)
    got = finite_step(left, right, c.view(np.float32), datapath=wrong)
    assert np.mean(got.view(np.uint32) != d) > 0.05


@pytest.mark.parametrize("name", ["ex2_ftz", "lg2_ftz", "rcp_ftz"])
def test_wrong_constants_of_the_interpolator_are_refuted(name, monkeypatch):
    table = getattr(mufu_interpolator, f"{name[:3].upper()}_TABLE")
    nudged = replace(table, bias=table.bias + 2048)
    monkeypatch.setattr(f"dmverify.spec.machine.hopper.mufu.{name[:3].upper()}_TABLE", nudged)
    results = {r.name: r.mismatches for r in replay_functions()}
    assert results[f"map/{name}"] > 10
    assert [
        r
        for r in replay_blocks(blocks=(0x3F8,))
        if r.name.startswith(f"hash/{name}") and r.mismatches
    ]


def test_a_twice_rounded_fma_is_refuted():
    arrays = recordings.load("arith")
    with np.errstate(all="ignore"):
        x, y, z = arrays["operands"].view(np.float32).astype(np.float64)
        twice = (x * y + z).astype(np.float32).view(np.uint32)
    number = np.isfinite(twice.view(np.float32))
    assert np.count_nonzero(twice[number] != arrays["out/fma_rn"][number]) > 50


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(recordings.FOLDER, tmp_path, dirs_exist_ok=True)
    return tmp_path


def _rewrite(folder, stem, change):
    with np.load(folder / f"{stem}.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    change(arrays)
    np.savez_compressed(folder / f"{stem}.npz", **arrays)


def _flip_a_bit(arrays):
    arrays["out/fma_rn"][17] ^= 1


def _drop(arrays):
    del arrays["out/fma_rn"]


def _add(arrays):
    arrays["out/fma_rz"] = arrays["out/fma_rn"]


@pytest.mark.parametrize("change", [_flip_a_bit, _drop, _add])
def test_a_changed_recording_is_rejected(copied, change):
    assert recordings.load("arith", folder=copied)
    _rewrite(copied, "arith", change)
    with pytest.raises(RecordingError, match="differs from the manifest"):
        recordings.load("arith", folder=copied)


def test_a_truncated_recording_is_rejected(copied):
    whole = (copied / "arith.npz").read_bytes()
    (copied / "arith.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordingError, match="cannot be read"):
        recordings.load("arith", folder=copied)


def test_a_damaged_byte_is_rejected(copied):
    damaged = bytearray((copied / "arith.npz").read_bytes())
    damaged[len(damaged) // 3] ^= 0xFF
    (copied / "arith.npz").write_bytes(bytes(damaged))
    with pytest.raises(RecordingError):
        recordings.load("arith", folder=copied)


def test_a_missing_file_is_rejected(copied):
    (copied / "wgmma.npz").unlink()
    with pytest.raises(RecordingError, match="cannot be read"):
        list(replay_wgmma(copied))


@pytest.mark.parametrize("text", ["", "[]", '{"version": 0}'])
def test_a_bad_manifest_is_rejected(copied, text):
    (copied / "manifest.json").write_text(text)
    with pytest.raises(RecordingError, match="manifest"):
        recordings.load("arith", folder=copied)


def test_writing_gives_back_what_is_read(tmp_path):
    groups = {"arith": recordings.load("arith")}
    recordings.write(tmp_path / "new", groups, forms=FORMS[:2], origin={"machine": "none"})
    again = recordings.load("arith", folder=tmp_path / "new")
    assert all(np.array_equal(again[k], v) for k, v in groups["arith"].items())
    assert recordings.manifest(tmp_path / "new")["forms"][0]["n"] == 64
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["arith.npz", "manifest.json"]


def test_the_recorded_operands_are_those_of_the_generators():
    arrays = recordings.load("wgmma")
    for form in FORMS:
        made = all_tiles(form)
        assert np.array_equal(made.a, arrays[f"{form.name}/a"]), form.name
        assert np.array_equal(made.b, arrays[f"{form.name}/b"]), form.name
        assert np.array_equal(made.c, arrays[f"{form.name}/c"]), form.name


def test_the_probe_texts_are_those_that_were_recorded():
    origin = recordings.manifest()["origin"]
    sources = texts()
    assert origin["functions"]["source_sha256"] == text_hash(sources["functions"])
    assert {k: v["source_sha256"] for k, v in origin["wgmma"].items()} == {
        form.name: text_hash(sources[form.name]) for form in FORMS
    }
    assert "H200" in json.dumps(origin["machine"])
