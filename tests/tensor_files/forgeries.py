"""The tables of forged files: each row is the valid file of its kind, wrong in one place."""

import json
import struct
import zipfile
from functools import partial

import numpy as np
import pytest
import torch

from tests.tensor_files.making import (
    DATA,
    SHAPES,
    dumped,
    name_of,
    npy,
    npz_file,
    numbers,
    one_tensor,
    pickled_file,
    program_of,
    safetensors_file,
    tensors,
    torch_file,
    valid_header,
)

GIB = 1 << 30
NAN = float("nan")


def changed(**changes):
    return lambda path: safetensors_file(path, valid_header(**changes), DATA)


def header(text, **options):
    return lambda path: safetensors_file(path, text, DATA, **options)


def cut(path):
    safetensors_file(path, valid_header(), DATA[:-2])


def sparse(path):
    """A file of a terabyte that says that all of it is its header."""
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 1 << 40))
        file.truncate(1 << 41)


def of_gigabytes(path):
    """Valid, sparse, and larger than memory."""
    count = 1 << 34
    row = {"dtype": "BF16", "shape": [1, count, 1, 32], "data_offsets": [0, 64 * count]}
    text = json.dumps(dict.fromkeys("qkv", row) | {"__metadata__": {"causal": "1"}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + 64 * count)


def settings(**words):
    found = valid_header()
    found["__metadata__"] = words
    return lambda path: safetensors_file(path, found, DATA)


SAFETENSORS = {
    "nothing": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("q, k and v"),
    "a header longer than the file": header({}, length=1 << 60),
    "a header of a terabyte": sparse,
    "brackets in brackets": header(b"[" * 100_000),
    "a list": header(b"[]"),
    "a name twice": header(b'{"q": {}, "q": {}}'),
    "not text": header(b"\xff\xfe"),
    "cut": cut,
    "more than memory": of_gigabytes,
    "a negative extent": changed(q={"shape": [1, -9, 4, 32]}),
    "extents of 2^70": changed(q={"shape": [1, 1 << 70, 4, 32]}),
    "a fraction of an extent": changed(q={"shape": [1, 9.0, 4, 32]}),
    "an extent that is true": changed(k={"shape": [True, 11, 2, 32]}),
    "another number of bytes": changed(q={"shape": [1, 10, 4, 32]}),
    "ends before it begins": changed(q={"data_offsets": [2304, 0]}),
    "negative offsets": changed(q={"data_offsets": [-2304, 0]}),
    "no offsets": changed(q={"data_offsets": None}),
    "whole numbers": changed(q={"dtype": "I16"}),
    "a format of a list": changed(q={"dtype": ["BF16"]}),
    "codes without scales": changed(q={"dtype": "F8_E4M3", "data_offsets": [0, 1152]}),
    "an unknown tensor": changed(w=valid_header()["q"]),
    "metadata that is a list": lambda path: safetensors_file(
        path, {**valid_header(), "__metadata__": []}, DATA
    ),
    "causal perhaps": settings(causal="perhaps"),
    "no causal": settings(),
    "a scale that is a word": settings(causal="1", softmax_scale="large"),
    "a scale that is no number": settings(causal="1", softmax_scale="nan"),
    "a scale beyond float32": settings(causal="1", softmax_scale="1e60"),
    "causal twice": settings(causal="1", Causal="0"),
    "a softmax scale by another name": settings(causal="1", sm_scale="0.5"),
    "another layout": settings(causal="1", layout="nhbd"),
}


def bomb(path):
    """A few kilobytes that unpack to a gigabyte, at the place of q."""
    shape = (1, GIB // 128, 1, 32)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("causal.npy", npy("|b1", (), b"\x01"))
        for name in "qkv":
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(npy(shape=shape, content=b""))
                for _ in range(16):
                    member.write(bytes(1 << 20))


def large_bomb(path):
    """The same with numbers of its shape, of which there are terabytes."""
    shape = (1, 1 << 36, 1, 32)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("causal.npy", npy("|b1", (), b"\x01"))
        for name in "qkv":
            content = npy(shape=shape, content=bytes(1 << 16))
            file.writestr(f"{name}.npy", content)
            file.filelist[-1].file_size = len(npy(shape=shape, content=b"")) + (1 << 43)


def header_bomb(path):
    """An array whose header says of itself that it has a gigabyte."""
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", GIB)
    npz_file(path, method=zipfile.ZIP_DEFLATED, q=start + b" " * (1 << 24))


def many_members(path):
    with zipfile.ZipFile(path, "w") as file:
        for number in range(30_000):
            file.writestr(f"{number}.npy", b"")


def twice(path):
    with pytest.warns(UserWarning, match="Duplicate"):
        npz_file(path, members=[("q.npy", npy(shape=SHAPES["q"]))])


def flipped(path):
    """One byte of the compressed numbers is another."""
    np.savez_compressed(path, **numbers(), causal=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0x55
    path.write_bytes(content)


def encrypted(path):
    npz_file(path)
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + place] |= 1
            at = content.find(mark, at + 1)
    path.write_bytes(content)


def objects(path):
    np.savez(path, **numbers(), causal=True, o=np.array([{}], object))


def scale_bomb(path):
    """A few kilobytes that unpack to a gigabyte, as the scale of a small tensor."""
    shape = (1, GIB // 4, 1, 1)
    npz_file(path)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file,
        file.open("k_scale.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy(shape=shape, content=b""))
        for _ in range(GIB >> 20):
            member.write(bytes(1 << 20))


def word(text):
    return npy(f"<U{len(text)}", (), text.encode("utf-32-le"))


def half(path):
    npz_file(path)
    path.write_bytes(path.read_bytes()[:-40])


NPZ = {
    "a text": lambda path: path.write_text("q, k and v"),
    "a bomb": bomb,
    "a larger bomb": large_bomb,
    "a bomb in a header": header_bomb,
    "a list of members without end": many_members,
    "a member twice": twice,
    "a flipped byte": flipped,
    "encrypted": encrypted,
    "cut": half,
    "objects, which are pickles": objects,
    "another method": partial(npz_file, method=zipfile.ZIP_LZMA),
    "more numbers than bytes": partial(npz_file, q=npy(shape=(1, 900, 4, 32), content=b"\0" * 9)),
    "fewer numbers than bytes": partial(npz_file, q=npy(content=bytes(8000))),
    "a member that is no array": partial(npz_file, q=b"hello"),
    "zeros in a header": lambda path: npz_file(path, q=npy().replace(b"  ", b" \0")),
    "a header that does not end": lambda path: npz_file(path, q=npy().replace(b"}", b"(")),
    "a header that is a program": partial(
        npz_file, q=b"\x93NUMPY\x01\x00\x14\x00__import__('os')   \n"
    ),
    "a large setting": partial(npz_file, causal=npy("<U100000", (), bytes(400_000))),
    "a bomb as a scale": scale_bomb,
    "a scale that is a word": partial(npz_file, k_scale=word("large")),
    "a scale that is complex": partial(npz_file, k_scale=npy("<c16", (), bytes(16))),
    "a scale beyond float32": partial(npz_file, k_scale=word("1e300")),
    "another case without v": partial(
        npz_file, members=[(f"b.{n}.npy", npy(shape=SHAPES[n])) for n in "qk"]
    ),
    "outputs of no case": partial(npz_file, members=[("b.o.npy", npy())]),
    "whole numbers": partial(npz_file, q=npy("<i4")),
    "complex numbers": partial(npz_file, q=npy("<c8", content=bytes(8 * 9 * 4 * 32))),
    "no q": partial(npz_file, q=None),
    "three extents": partial(npz_file, q=npy(shape=(9, 4, 32))),
    "other head dims": partial(npz_file, k=npy(shape=(1, 11, 2, 64))),
    "other keys": partial(npz_file, v=npy(shape=(1, 12, 2, 32))),
    "heads that do not divide": partial(
        npz_file, k=npy(shape=(1, 11, 3, 32)), v=npy(shape=(1, 11, 3, 32))
    ),
    "a head dim of 40": partial(
        npz_file, **{n: npy(shape=(*s[:3], 40)) for n, s in SHAPES.items()}
    ),
    "some gradients": partial(npz_file, o=npy(), dq=npy()),
    "gradients without o": partial(npz_file, lse=npy(shape=(1, 4, 9))),
    "lse by tokens": partial(npz_file, o=npy(), lse=npy(shape=(1, 9, 4))),
    "numbers beyond BF16": partial(
        npz_file, q=npy(content=np.full(1152, 1 + 2**-20, "<f4").tobytes())
    ),
    "float64 beyond float32": partial(
        npz_file, q=npy("<f8", content=np.full(1152, 1 + 2**-40, "<f8").tobytes())
    ),
    "a name in both cases": partial(npz_file, members=[("Q.npy", npy())]),
}


def itself(path):
    found = {"q": torch.zeros(1)}
    found["again"] = found
    pickled_file(path, dumped({}).replace(b"}", b"}q\x00X\x01\x00\x00\x00ah\x00s"))


def deep_key(path):
    pickled_file(path, program_of(b"}", b")", b"\x85" * 500_000, b"Ns"))


def large_memo(path):
    pickled_file(path, program_of(b"}", b"r\xff\xff\xff\x7f", b"cos\nsystem\n"))


def many_bytes(path):
    """bytearray(2^40), which torch's own reader of weights would make."""
    call = name_of(b"builtins", b"bytearray") + b"\x8a\x06\x00\x00\x00\x00\x00\x01" + b"\x85R"
    pickled_file(path, program_of(b"}X\x01\x00\x00\x00q", call, b"s"))


def big_endian(path):
    torch.save(tensors(), path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, b"big" if name.endswith("byteorder") else content)


def terabytes(path):
    """Views of one number that have 2^45."""
    one = one_tensor(b"q", 1, (1, 1 << 40, 1, 32), (0, 0, 0, 0))
    rest = b"".join(
        one.removeprefix(b"\x80\x02}")[:-1].replace(b"q", name, 1) for name in (b"k", b"v")
    )
    causal = b"X\x06\x00\x00\x00causal\x88s"
    pickled_file(path, one[:-1] + rest + causal + b".", [("0", bytes(4))])


def squeezed(path):
    program = one_tensor(b"q", 1 << 20, (1 << 20,), (1,))
    pickled_file(path, program, [("0", bytes(4 << 20))], zipfile.ZIP_DEFLATED)


def of_bytes(old=b"", new=b"", cut=0):
    """Tensors of E4M3 with one name of their program exchanged, or storages cut short."""

    def make(path):
        codes = {name: x.to(torch.float8_e4m3fn) for name, x in tensors().items()}
        torch.save(codes | {f"{n}_scale": torch.ones(1) for n in codes} | {"causal": True}, path)
        with zipfile.ZipFile(path) as file:
            members = {name: file.read(name) for name in file.namelist()}
        with zipfile.ZipFile(path, "w") as file:
            for name, content in members.items():
                end = len(content) - (cut if "/data/" in name else 0)
                file.writestr(name, content.replace(old, new) if "pkl" in name else content[:end])

    return make


TORCH = {
    "a plain pickle": lambda path: path.write_bytes(dumped({"q": 1})),
    "a legacy file": lambda path: torch.save(tensors(), path, _use_new_zipfile_serialization=False),
    "a module": lambda path: torch.save(torch.nn.Linear(2, 2), path),
    "a list": lambda path: torch.save([torch.zeros(1)], path),
    "a tensor": lambda path: torch.save(torch.zeros(1), path),
    "a sparse tensor": lambda path: torch.save({"q": torch.eye(3).to_sparse()}, path),
    "no program": lambda path: npz_file(path),
    "a program without end": lambda path: pickled_file(path, b"\x80\x02}"),
    "a program of nothing": lambda path: pickled_file(path, b""),
    "random bytes": lambda path: pickled_file(path, bytes(range(256))),
    "a dictionary in itself": itself,
    "a key without end": deep_key,
    "a large place and a forbidden name": large_memo,
    "a call that takes memory": many_bytes,
    "a large program": lambda path: pickled_file(path, program_of(b"N0" * (1 << 20), b"}")),
    "numbers of another machine": big_endian,
    "a compressed storage": squeezed,
    "beyond its storage": lambda path: pickled_file(
        path, one_tensor(b"q", 4, (5,), (1,)), [("0", bytes(16))]
    ),
    "strides beyond its storage": lambda path: pickled_file(
        path, one_tensor(b"q", 4, (2, 2), (3, 1)), [("0", bytes(16))]
    ),
    "an offset beyond its storage": lambda path: pickled_file(
        path, one_tensor(b"q", 4, (2,), (1,), offset=3), [("0", bytes(16))]
    ),
    "a negative offset": lambda path: pickled_file(
        path, one_tensor(b"q", 4, (2,), (1,), offset=-1), [("0", bytes(16))]
    ),
    "negative strides": lambda path: pickled_file(
        path, one_tensor(b"q", 4, (4,), (-1,), offset=3), [("0", bytes(16))]
    ),
    "a storage that is larger than its member": lambda path: pickled_file(
        path, one_tensor(b"q", 1 << 30, (1 << 30,), (1,)), [("0", bytes(16))]
    ),
    "a storage that is not there": lambda path: pickled_file(
        path, one_tensor(b"q", 4, (4,), (1,)), []
    ),
    "a view of terabytes": terabytes,
    "a scale that is a view of terabytes": lambda path: torch_file(
        path,
        {**tensors(), "causal": True, "k_scale": torch.ones(1, 1, 1, 1).expand(1, 1 << 42, 1, 1)},
    ),
    "bytes of another format": of_bytes(b"float8_e4m3fn", b"float8_e5m2fnuz"),
    "a format that calls": of_bytes(b"float8_e4m3fn", b"save"),
    "bytes without a format": of_bytes(b"_rebuild_tensor_v3", b"_rebuild_tensor_v2"),
    "a storage of two types": of_bytes(b"torch.storage\nUntypedStorage", b"torch\nCharStorage"),
    "bytes beyond their storage": of_bytes(cut=1),
    "other numbers": lambda path: torch_file(
        path, {**tensors(), "q": torch.ones(1, 9, 4, 32).int()}
    ),
    "numbers beyond BF16": lambda path: torch_file(
        path, {**tensors(), "q": torch.full(SHAPES["q"], 1 + 2**-20), "causal": True}
    ),
    "a scale that is no number": lambda path: torch_file(
        path, {**tensors(), "causal": True, "softmax_scale": NAN}
    ),
    "causal that is a number": lambda path: torch_file(path, {**tensors(), "causal": 2}),
}
ROWS = {
    f"{kind}: {name}": (kind, make)
    for kind, table in (("safetensors", SAFETENSORS), ("npz", NPZ), ("pt", TORCH))
    for name, make in table.items()
}
