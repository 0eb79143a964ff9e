"""What the host packs lies where the compiler says: in structs, in signatures, in cubins."""

import ctypes
import re
import struct

import pytest
import torch

from dmverify.conformance.kernels.certify import all_variants, sections
from dmverify.kernel import parameters
from dmverify.kernel.build import BuildVariant, build, compile_nvrtc, source
from dmverify.kernel.errors import BuildError, UnsupportedError
from dmverify.kernel.parameters import Field, fields, pack, places
from tests.kernel.nvrtc import compiles

STRUCTS = {  # of each entry: its file, and its struct
    "forward": ("forward", "ForwardParameters"),
    "query": ("query", "QueryParameters"),
    "key": ("key", "KeyParameters"),
    "quantise_first": ("quantise", "FirstParameters"),
    "quantise_rest": ("quantise", "RestParameters"),
    "key_means": ("quantise", "MeansParameters"),
    "quantise_gradient": ("quantise", "GradientParameters"),
}
CASES = [(entry, dump) for entry in STRUCTS for dump in (False, True) if not dump or entry in
         ("forward", "query")]  # fmt: skip
PARAMETER = re.compile(rb"\x04\x17\x0c\x00(.{12})", re.DOTALL)  # attribute of a cubin: 12 bytes


def asserts(name, names, where):
    """What the compiler is to find: the size of a struct and the place of each field."""
    end = max(start + size for start, size in where)
    yield f"static_assert(sizeof({name}) == {-(-end // 8) * 8});"
    for field, (start, size) in zip(names, where, strict=True):
        yield f"static_assert(__INTADDR__(&(({name}*)0)->{field}) == {start});"
        yield f"static_assert(sizeof({name}::{field}) == {size});"


def compiled(entry, dump, where):
    """Compiles an entry's file with these assertions."""
    kernel, name = STRUCTS[entry]
    variant = BuildVariant(kernel, 64, causal=False, dump=dump)
    names = [field.name for field in fields(entry, dump=dump)]
    text = "\n".join([source(kernel), *asserts(name, names, where)])
    return compile_nvrtc(text, tuple(f"-D{k}={v}" for k, v in variant.macros().items()))


@compiles
@pytest.mark.parametrize(("entry", "dump"), CASES)
def test_a_struct_lies_as_the_host_thinks(entry, dump):
    compiled(entry, dump, places(entry, dump=dump))


@compiles
def test_a_field_at_another_place_is_refused():
    where = list(places("key"))
    where[3], where[6] = where[6], where[3]
    with pytest.raises(BuildError, match="static assertion failed"):
        compiled("key", False, where)


def in_cubin(cubin, entry):
    """Offset and size of each parameter, by its number, as the machine code's notes say."""
    (notes,) = [x for name, x in sections(cubin) if name == f".nv.info.{entry}".encode()]
    rows = (struct.unpack("<IHHI", row) for row in PARAMETER.findall(notes))
    return tuple((offset, word >> 18) for _, _, offset, word in sorted(rows, key=lambda r: r[1]))


@compiles
@pytest.mark.parametrize(("entry", "dump"), CASES)
def test_a_signature_takes_the_fields_one_by_one_at_the_same_places(entry, dump):
    cubin = build(BuildVariant(STRUCTS[entry][0], 64, causal=False, dump=dump)).cubin
    assert in_cubin(cubin, entry) == places(entry, dump=dump)


def test_every_entry_of_every_kernel_has_a_list():
    for kernel in {variant.kernel for variant in all_variants()}:
        found = re.findall(r"(\w+) SIGNATURE\((\w+_FIELDS)\)", source(kernel))
        assert {entry for entry, _ in found} == {e for e, (k, _) in STRUCTS.items() if k == kernel}
        assert all(name == f"{entry.upper()}_FIELDS" for entry, name in found)
        assert source(kernel).count("__global__") == len(found)


def test_values_are_packed_by_name_with_the_widths_of_their_fields():
    values = {"sums": None, "means": torch.zeros(3), "units": 7, "n": -1}
    sums, means, units, n = pack("key_means", dict(reversed(values.items())))
    assert (sums, means) == (0, values["means"].data_ptr())
    assert [(type(x), x.value) for x in (units, n)] == [(ctypes.c_int, 7), (ctypes.c_int, -1)]
    assert isinstance(Field("k_batch", "i64").argument(1 << 40), ctypes.c_longlong)
    assert isinstance(Field("c", "float").argument(0.5), ctypes.c_float)


@pytest.mark.parametrize("change", [{"units": None}, {"more": 1}, {"n": 1.0}, {"sums": 4}])
def test_what_is_missing_unknown_or_of_another_type_is_refused(change):
    values = {"sums": None, "means": None, "units": 7, "n": 1, **change}
    if change == {"units": None}:
        del values["units"]
    wrong = BuildError if change.keys() & {"units", "more"} else TypeError
    with pytest.raises(wrong, match=next(iter(change))):
        pack("key_means", values)


def test_an_integer_that_would_wrap_is_refused_and_no_stride_is():
    values = {"sums": None, "means": None, "units": 7, "n": 1 << 31}
    with pytest.raises(UnsupportedError, match="32 bits"):
        pack("key_means", values)
    assert Field("k_token", "i64").argument(1 << 31).value == 1 << 31


def test_an_unknown_kernel_has_no_fields():
    with pytest.raises(BuildError, match="nobody"):
        fields("nobody")


def test_a_dump_has_more_fields_behind_the_others():
    for entry in ("forward", "query"):
        plain, dump = fields(entry), fields(entry, dump=True)
        assert dump[: len(plain)] == plain
        assert all(field.name.startswith("dump_") for field in dump[len(plain) :])
        assert len(dump) > len(plain)
    assert parameters.fields("key", dump=True) == fields("key")
