"""Tensors of a small case, and files of them that are wrong in one place."""

import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import torch
from safetensors.torch import save_file

from dmverify.spec.formats import BF16

SHAPES = {"q": (1, 9, 4, 32), "k": (1, 11, 2, 32), "v": (1, 11, 2, 32), "do": (1, 9, 4, 32)}


def numbers(seed=0):
    draws = np.random.default_rng(seed)
    return {
        name: BF16.round(draws.standard_normal(shape).astype(np.float32))
        for name, shape in SHAPES.items()
    }


def tensors(seed=0):
    return {name: torch.from_numpy(x).bfloat16() for name, x in numbers(seed).items()}


def safetensors_file(path, header=None, data=b"", length=None):
    """A file with any header; ``length`` is what its first bytes say of it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def valid_header(**changes):
    header, start = {"__metadata__": {"causal": "1"}}, 0
    for name, shape in SHAPES.items():
        end = start + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
        start = end
    for name, fields in changes.items():
        header[name] = {**header.get(name, {}), **fields}
    return header


DATA = bytes(2 * sum(int(np.prod(shape)) for shape in SHAPES.values()))


def npy(descr="<f4", shape=(1, 9, 4, 32), content=None, order=False):
    """The bytes of an .npy file whose header says this."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117)
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"\n"
    return start + (bytes(4 * int(np.prod(shape))) if content is None else content)


def npz_file(path, members=(), method=zipfile.ZIP_STORED, **changes):
    """A file of the small case with some members replaced (None drops one) and others added."""
    found = {f"{name}.npy": npy(shape=shape) for name, shape in SHAPES.items()}
    found["causal.npy"] = npy("|b1", (), b"\x01")
    found |= {f"{name}.npy": content for name, content in changes.items()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in [*found.items(), *members]:
            if content is not None:
                file.writestr(name, content)
    return path


def torch_file(path, content):
    torch.save(content, path)
    return path


def pickled_file(path, program, records=(("0", b""),), method=zipfile.ZIP_STORED):
    """A PT file with any program and any storages."""
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("archive/data.pkl", program)
        for name, content in records:
            file.writestr(f"archive/data/{name}", content)
    return path


class Runs:
    """A pickle of this runs a command where it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def saved(path, kind, seed=0, prefix="", causal=True, **more):
    """A valid file of a kind, with the small case."""
    named = {f"{prefix}{name}": x for name, x in tensors(seed).items()}
    if kind == "safetensors":
        save_file({**named, **more}, path, metadata={"causal": str(causal).lower()})
    elif kind == "npz":
        arrays = {name: x.float().numpy() for name, x in {**named, **more}.items()}
        np.savez_compressed(path, causal=causal, **arrays)
    else:
        torch.save({**named, **more, "causal": causal}, path)
    return path


def program_of(*instructions):
    """A pickle program, instruction by instruction."""
    return b"\x80\x02" + b"".join(instructions) + b"."


def name_of(module, attribute):
    return b"c" + module + b"\n" + attribute + b"\n"


def storage_of(kind=b"FloatStorage", key=b"0", count=1):
    key_text = b"X" + struct.pack("<I", len(key)) + key
    return (
        b"(X\x07\x00\x00\x00storage"
        + name_of(b"torch", kind)
        + key_text
        + b"X\x03\x00\x00\x00cpu"
        + b"J"
        + struct.pack("<i", count)
        + b"tQ"
    )


def one_tensor(name, count, shape, strides, offset=0, kind=b"FloatStorage"):
    """A program of a dictionary with one tensor."""

    def whole(x):
        return b"\x8a\x08" + struct.pack("<q", x)

    def numbers_of(xs):
        return b"(" + b"".join(map(whole, xs)) + b"t"

    return program_of(
        b"}X" + struct.pack("<I", len(name)) + name,
        name_of(b"torch._utils", b"_rebuild_tensor_v2"),
        b"(" + storage_of(kind, count=count) + whole(offset) + numbers_of(shape),
        numbers_of(strides) + b"\x89" + name_of(b"collections", b"OrderedDict") + b")RtR",
        b"s",
    )


def dumped(value):
    out = io.BytesIO()
    pickle.dump(value, out, 2)
    return out.getvalue()
