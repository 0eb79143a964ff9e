"""The committed captures load, match their hashes, and nothing damaged is ever returned."""

import json
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dmverify.conformance.captures import list_captures, load_capture
from dmverify.conformance.captures.store import DATA, MANIFEST, TENSORS, manifest_digest
from dmverify.errors import RecordingError, UnknownNameError

NAMES = list_captures()
LAYERS_OF = {
    "minilm": 6,
    "minilm-short": 6,
    "chars-step0": 2,
    "chars-step400": 2,
    "chars-step800": 2,
}


@pytest.fixture
def copy(tmp_path):
    """A writable copy of the captures."""
    for path in DATA.iterdir():
        if path.suffix in (".json", ".safetensors"):
            shutil.copy(path, tmp_path)
    return tmp_path


def rewrite_manifest(directory, change, *, sign):
    path = directory / MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    if sign:
        manifest["digest"] = manifest_digest(manifest)
    path.write_text(json.dumps(manifest))


def test_every_layer_of_every_model_is_there():
    expected = {f"{family}/layer{i}" for family, n in LAYERS_OF.items() for i in range(n)}
    assert set(NAMES) == expected


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_finite_bf16_numbers_of_one_shape(name):
    capture = load_capture(name)
    shapes = set()
    for tensor in TENSORS:
        x = getattr(capture, tensor)
        assert x.dtype == np.float32
        assert np.isfinite(x).all()
        assert np.abs(x).max() > 0
        np.testing.assert_array_equal(x, x.astype(ml_dtypes.bfloat16).astype(np.float32))
        shapes.add(x.shape)
    (shape,) = shapes
    assert shape[2:] == (4, 32)
    assert capture.softmax_scale == 32**-0.5
    assert capture.causal == name.startswith("chars")


def test_bits_are_widened_as_ml_dtypes_does():
    bits = load_file(DATA / "chars.safetensors")["chars-step0/layer0/q"]
    expected = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(load_capture("chars-step0/layer0").q, expected)


def test_committed_tensors_stay_small():
    assert sum(path.stat().st_size for path in DATA.glob("*.safetensors")) <= 3_000_000


def test_lengths_are_no_multiple_of_a_tile():
    assert load_capture("minilm/layer0").q.shape == (1, 253, 4, 32)
    assert load_capture("minilm-short/layer0").q.shape == (1, 101, 4, 32)


def test_loading_imports_no_torch():
    program = (
        "import sys; from dmverify.conformance.captures import load_capture;"
        "load_capture('chars-step0/layer0'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", ["minilm/layer6", "", "minilm", 3])
def test_unknown_name_suggests_a_real_one(name):
    with pytest.raises(UnknownNameError) as caught:
        load_capture(name)
    assert any(real in caught.value.fix for real in NAMES)
    assert caught.value.exit_code == 2


def test_one_flipped_bit_is_noticed_in_its_own_capture_only(copy):
    path = copy / "chars.safetensors"
    tensors = load_file(path)
    tensors["chars-step0/layer0/do"].flat[77] ^= 1
    save_file(tensors, path)
    with pytest.raises(RecordingError, match=r"chars-step0/layer0/do: sha256"):
        load_capture("chars-step0/layer0", directory=copy)
    assert load_capture("chars-step0/layer1", directory=copy).q.shape == (2, 64, 4, 32)


def test_swapped_tensors_are_noticed(copy):
    path = copy / "chars.safetensors"
    tensors = load_file(path)
    name = "chars-step0/layer0"
    tensors[f"{name}/q"], tensors[f"{name}/k"] = tensors[f"{name}/k"], tensors[f"{name}/q"]
    save_file(tensors, path)
    with pytest.raises(RecordingError, match="sha256"):
        load_capture(name, directory=copy)


@pytest.mark.parametrize("kept", [0, 4, 1000, -1])
def test_truncated_tensors_are_refused(copy, kept):
    path = copy / "minilm.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RecordingError, match="whole safetensors file"):
        load_capture("minilm/layer0", directory=copy)


def test_missing_files_are_refused(copy):
    (copy / "minilm.safetensors").unlink()
    with pytest.raises(RecordingError, match=r"minilm\.safetensors"):
        load_capture("minilm/layer0", directory=copy)
    (copy / MANIFEST).unlink()
    with pytest.raises(RecordingError, match=r"manifest\.json"):
        list_captures(directory=copy)


def test_wrong_dtype_or_shape_is_refused_before_its_values_are_read(copy):
    path = copy / "chars.safetensors"
    tensors = load_file(path)
    name = "chars-step0/layer0/v"
    for wrong in (tensors[name].view(np.int16), tensors[name].reshape(1, 128, 4, 32)):
        save_file(tensors | {name: wrong}, path)
        with pytest.raises(RecordingError, match="rule: uint16"):
            load_capture("chars-step0/layer0", directory=copy)


@pytest.mark.parametrize("kept", [0, 10, -3])
def test_truncated_manifest_is_refused(copy, kept):
    path = copy / MANIFEST
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RecordingError, match="readable JSON"):
        load_capture("minilm/layer0", directory=copy)


def set_scale(manifest):
    manifest["captures"]["minilm/layer0"]["softmax_scale"] = 1.0


def set_format(manifest):
    manifest["format"] = 2


def test_edited_manifest_is_refused(copy):
    rewrite_manifest(copy, set_scale, sign=False)
    with pytest.raises(RecordingError, match="digest"):
        load_capture("minilm/layer0", directory=copy)


def test_manifest_of_another_format_is_refused(copy):
    rewrite_manifest(copy, set_format, sign=True)
    with pytest.raises(RecordingError, match="manifests of format 1"):
        list_captures(directory=copy)
