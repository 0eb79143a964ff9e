"""Layout, special-value and length families: views, poison around them, sizes."""

from __future__ import annotations

import numpy as np
import pytest

from dmverify.conformance.families import FAMILIES, generate
from dmverify.conformance.families.lengths import EQUAL, GROUPS

SIZES = {"far-batches": ",batch=2,heads=2,kv_heads=1,queries=65,keys=65"}


@pytest.mark.parametrize("variant", [*FAMILIES["layout"].variants])
def test_layouts_change_strides_and_not_values(variant):
    case = generate(f"layout/{variant}")
    plain = generate("layout/misaligned" + SIZES.get(variant, "")).inputs
    changed = {}
    for name, x in case.inputs.items():
        source = getattr(plain, name)
        if variant == "expanded" and name in "kv":
            source = np.broadcast_to(source[:, :, :1], source.shape)
        assert np.array_equal(x, source)
        changed[name] = not x.flags.c_contiguous
    expected = {
        "packed": {"q", "k", "v"},
        "heads-first": {"q", "k", "v", "do"},
        "sparse-rows": {"q", "k", "v", "do"},
        "expanded": {"k", "v"},
        "misaligned": set(),
        "far-rows": {"q", "k", "v", "do"},
        "far-heads": {"q", "k", "v", "do"},
        "far-batches": {"q", "k", "v", "do"},
    }[variant]
    assert {name for name, flag in changed.items() if flag} == expected


def element_strides(x: np.ndarray) -> tuple[int, ...]:
    return tuple(step // 4 for step in x.strides)


def test_the_layouts_are_the_ones_described():
    packed = generate("layout/packed").inputs
    assert packed.q.base is packed.k.base is not None
    expanded = generate("layout/expanded").inputs
    assert element_strides(expanded.k)[2] == 0
    misaligned = generate("layout/misaligned").inputs.k
    start = misaligned.base.__array_interface__["data"][0]
    assert misaligned.__array_interface__["data"][0] - start == 4


@pytest.mark.parametrize(("variant", "axis"), [("rows", 1), ("heads", 2), ("batches", 0)])
def test_far_tensors_end_beyond_32_bits(variant, axis):
    for _, x in generate(f"layout/far-{variant}").inputs.items():
        spread = axis if x.shape[axis] > 1 else 1
        assert element_strides(x)[spread] * (x.shape[spread] - 1) >= 2**31


@pytest.mark.parametrize("variant", [v for v in FAMILIES["special"].variants if v != "around"])
def test_one_special_value_in_the_named_tensor(variant):
    name, word = variant.split("-", 1)
    case = generate(f"special/{variant}@2")
    for tensor, x in case.inputs.items():
        bad = x[~np.isfinite(x)]
        assert bad.size == (tensor == name)
    value = float(bad[0] if name == "do" else getattr(case.inputs, name)[
        ~np.isfinite(getattr(case.inputs, name))][0])  # fmt: skip
    assert {"nan": np.isnan(value), "inf": value == np.inf, "minus-inf": value == -np.inf}[word]


def test_finite_tensors_are_surrounded_by_nan():
    for _, x in generate("special/around").inputs.items():
        assert np.isfinite(x).all()
        assert x.base is not None
        assert np.isnan(x.base).sum() == x.base.size - x.size
        assert np.isnan(x.base[0]).all()


def test_the_lengths_are_those_of_instructions_windows_and_blocks():
    variants = FAMILIES["lengths"].variants
    problems = [generate(f"lengths/{v}").problem for v in variants]
    assert {p.keys for p in problems if p.queries == p.keys} >= set(EQUAL)
    assert {p.group for p in problems} >= set(GROUPS)
    assert any(p.queries < p.keys for p in problems)
    assert any(p.queries > p.keys > 0 and p.causal for p in problems)  # dead rows
    for extent in ("queries", "keys", "batch"):
        assert any(getattr(p, extent) == 0 for p in problems)
    assert {p.head_dim for p in problems} >= {32, 64, 96, 128, 256}
