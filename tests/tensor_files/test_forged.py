"""Files that are broken, hostile or do not fit: refused in words, in little time and memory."""

import os
import tracemalloc

import numpy as np
import pytest
import torch

from dmverify.conformance.tensor_files import Source, read_cases
from dmverify.errors import InputError
from tests.tensor_files.forgeries import ROWS
from tests.tensor_files.making import (
    DATA,
    Runs,
    npz_file,
    one_tensor,
    pickled_file,
    safetensors_file,
    tensors,
    torch_file,
    valid_header,
)

ROOM = 1 << 26  # bytes that a refusal may take: the largest header and what it becomes
SAYS = {
    "safetensors: nothing": "its header is beyond",
    "safetensors: a text": "its header is beyond",
    "safetensors: a header longer than the file": "its header is beyond",
    "safetensors: a header of a terabyte": "its header is beyond",
    "safetensors: brackets in brackets": "its header is no JSON that names each tensor once",
    "safetensors: a list": "its header is no object",
    "safetensors: a name twice": "its header is no JSON that names each tensor once",
    "safetensors: not text": "its header is no JSON that names each tensor once",
    "safetensors: cut": "'do' has another number of bytes than its shape",
    "safetensors: more than memory": "a case fits the memory of this process",
    "safetensors: a negative extent": "tensor 'q' has a shape that is none",
    "safetensors: extents of 2^70": "tensor 'q' has a shape that is none",
    "safetensors: a fraction of an extent": "tensor 'q' has a shape that is none",
    "safetensors: an extent that is true": "tensor 'k' has a shape that is none",
    "safetensors: another number of bytes": "'q' has another number of bytes than its shape",
    "safetensors: ends before it begins": "'q' begins and ends nowhere",
    "safetensors: negative offsets": "'q' begins and ends nowhere",
    "safetensors: no offsets": "the header says nothing of 'q' that can be read",
    "safetensors: whole numbers": "tensors are of BF16, F16, F32, F64",
    "safetensors: a format of a list": "the header says nothing of 'q' that can be read",
    "safetensors: codes without scales": "codes have a scale; nothing is guessed",
    "safetensors: an unknown tensor": "tensors are q, k, v, do, q_scale, k_scale, v_scale",
    "safetensors: metadata that is a list": "__metadata__ is no object",
    "safetensors: causal perhaps": "causal is true or false",
    "safetensors: no causal": "a case says its causal; nothing is guessed",
    "safetensors: a scale that is a word": "it is a number",
    "safetensors: a scale that is no number": "softmax_scale=",
    "safetensors: a scale beyond float32": "softmax_scale=",
    "safetensors: causal twice": "a setting has one name",
    "safetensors: a softmax scale by another name": "sm_scale='0.5'",
    "safetensors: another layout": "a layout is bnhd or bhnd",
    "npz: a text": "'its list of members' cannot be read",
    "npz: a bomb": "'q.npy' has another number of bytes than its shape",
    "npz: a larger bomb": "a case fits the memory of this process",
    "npz: a bomb in a header": "'q.npy' is no array",
    "npz: a list of members without end": "'its list of members' cannot be read",
    "npz: a member twice": "a name occurs twice",
    "npz: a flipped byte": "'q.npy' cannot be read (Bad CRC-32 for file 'q.npy')",
    "npz: encrypted": "'q.npy' cannot be read",
    "npz: cut": "'its list of members' cannot be read",
    "npz: objects, which are pickles": "'o.npy' is no array of numbers",
    "npz: another method": "'q.npy' cannot be read (a method other than deflate)",
    "npz: more numbers than bytes": "'q.npy' has another number of bytes than its shape",
    "npz: fewer numbers than bytes": "'q.npy' has another number of bytes than its shape",
    "npz: a member that is no array": "'q.npy' is no array",
    "npz: zeros in a header": "'q.npy' is no array",
    "npz: a header that does not end": "'q.npy' is no array",
    "npz: a header that is a program": "'q.npy' is no array",
    "npz: a large setting": "'causal.npy' is no setting",
    "npz: a bomb as a scale": "k_scale with shape (1, 268435456, 1, 1)",
    "npz: a scale that is a word": "k_scale='large'; rule: it is a number",
    "npz: a scale that is complex": "k_scale=0j; rule: it is a number",
    "npz: a scale beyond float32": "k_scale with a value that is not finite",
    "npz: another case without v": "case 'b' without v",
    "npz: outputs of no case": "case 'b' without q, k, v",
    "npz: whole numbers": "tensors are of BF16, F16, F32, F64",
    "npz: complex numbers": "tensors are of BF16, F16, F32, F64",
    "npz: no q": "case '' without q",
    "npz: three extents": "q has 4 extents",
    "npz: other head dims": "it has (",
    "npz: other keys": "it has (",
    "npz: heads that do not divide": "every key head serves the same number (at least 1) of query",
    "npz: a head dim of 40": "one FP8 wgmma contracts 32 channels",
    "npz: some gradients": "outputs are o, and all of dq, dk, dv or none",
    "npz: gradients without o": "outputs are o, and all of dq, dk, dv or none",
    "npz: lse by tokens": "it has (",
    "npz: numbers beyond BF16": "inputs are BF16 numbers",
    "npz: float64 beyond float32": "nothing is rounded as they are read",
    "npz: a name in both cases": "a tensor has one name",
    "pt: a plain pickle": "'its list of members' cannot be read",
    "pt: a legacy file": "'its list of members' cannot be read",
    "pt: a module": "data.pkl builds something else than tensors",
    "pt: a list": "data.pkl builds something else than tensors",
    "pt: a tensor": "it is no dictionary of tensors, 8 deep at most",
    "pt: a sparse tensor": "data.pkl builds something else than tensors",
    "pt: no program": "it has no data.pkl, as torch.save writes it since 2020",
    "pt: a program without end": "data.pkl builds something else than tensors",
    "pt: a program of nothing": "data.pkl builds something else than tensors",
    "pt: random bytes": "data.pkl builds something else than tensors",
    "pt: a dictionary in itself": "it is no dictionary of tensors, 8 deep at most",
    "pt: a key without end": "data.pkl builds something else than tensors",
    "pt: a large place and a forbidden name": "data.pkl builds something else than tensors",
    "pt: a call that takes memory": "data.pkl builds something else than tensors",
    "pt: a large program": "its data.pkl has more than 1048576 bytes",
    "pt: numbers of another machine": "its numbers are not little-endian",
    "pt: a compressed storage": "tensor 'q' does not lie in its storage",
    "pt: beyond its storage": "tensor 'q' does not lie in its storage",
    "pt: strides beyond its storage": "tensor 'q' does not lie in its storage",
    "pt: an offset beyond its storage": "tensor 'q' does not lie in its storage",
    "pt: a negative offset": "tensor 'q' does not lie in its storage",
    "pt: negative strides": "tensor 'q' has a shape that is none",
    "pt: a storage that is larger than its member": "tensor 'q' does not lie in its storage",
    "pt: a storage that is not there": "tensor 'q' does not lie in its storage",
    "pt: a scale that is a view of terabytes": "k_scale with shape (1, 4398046511104, 1, 1)",
    "pt: a view of terabytes": "a case fits the memory of this process",
    "pt: bytes of another format": "the name torch float8_e5m2fnuz",
    "pt: a format that calls": "the name torch save",
    "pt: bytes without a format": "data.pkl builds something else than tensors (no tensor)",
    "pt: a storage of two types": "(a storage of two types)",
    "pt: bytes beyond their storage": "does not lie in its storage",
    "pt: other numbers": "data.pkl builds something else than tensors",
    "pt: numbers beyond BF16": "inputs are BF16 numbers",
    "pt: a scale that is no number": "softmax_scale=",
    "pt: causal that is a number": "causal is true or false",
}


@pytest.mark.parametrize("name", ROWS)
def test_a_forged_file_is_refused_in_words_and_little_memory(name, tmp_path):
    kind, make = ROWS[name]
    path = tmp_path / f"x.{kind}"
    make(path)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"rule: .*; fix: ") as caught:
            list(read_cases(Source(path)))
        assert tracemalloc.get_traced_memory()[1] < ROOM
    finally:
        tracemalloc.stop()
    assert SAYS[name] in str(caught.value)


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz", "x.pt"])
def test_what_is_no_file_is_refused_and_not_waited_for(name, tmp_path):
    path = tmp_path / name
    with pytest.raises(InputError, match="No such file"):
        list(read_cases(Source(path)))
    path.mkdir()
    with pytest.raises(InputError, match="no plain file"):
        list(read_cases(Source(path)))
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(InputError, match="no plain file"):
        list(read_cases(Source(path)))
    with pytest.raises(InputError, match=r"safetensors, .npz, .pt"):
        list(read_cases(Source(tmp_path / "x.bin")))


def test_no_program_of_a_file_runs(tmp_path):
    seen = tmp_path / "seen"
    torch.save({"q": Runs(seen)}, tmp_path / "x.pt")
    np.savez(tmp_path / "x.npz", q=np.array([Runs(seen)], object))
    for name in ("x.pt", "x.npz"):
        with pytest.raises(InputError):
            list(read_cases(Source(tmp_path / name)))
    assert not seen.exists()


def test_the_valid_file_of_each_table_is_taken(tmp_path):
    """What the forged ones are made of: they are refused for what was changed."""
    safetensors_file(tmp_path / "x.safetensors", valid_header(), DATA)
    npz_file(tmp_path / "x.npz")
    torch_file(tmp_path / "x.pt", {**tensors(), "causal": True})
    pickled_file(tmp_path / "y.pt", one_tensor(b"w", 4, (2, 2), (2, 1)), [("0", bytes(16))])
    for name in ("x.safetensors", "x.npz", "x.pt"):
        assert len(list(read_cases(Source(tmp_path / name)))) == 1
    with pytest.raises(InputError, match="a case has q, k, v"):
        list(read_cases(Source(tmp_path / "y.pt")))
