"""The fast tensor core against the readable reference, on both array libraries."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmverify.errors import InputError
from dmverify.lab.probes.forms import tiles
from dmverify.lab.probes.operands import FAMILIES
from dmverify.lab.probes.wgmma_source import Form
from dmverify.spec.formats import BF16, E4M3, E5M2
from dmverify.spec.machine import hopper
from dmverify.spec.machine.hopper import wgmma_fast, wgmma_values
from dmverify.spec.machine.hopper.wgmma_reference import Codes, finite_step

M, N = 3, 5
ONE_E4M3 = np.uint8(0x38)


def reference(a, b, c, a_format=E4M3, b_format=E4M3):
    """The chain of reference steps, specials by IEEE 754 one product at a time."""
    values = a_format.decode(a), b_format.decode(b)
    with np.errstate(invalid="ignore"):
        terms = values[0][:, None, :].astype(np.float64) * values[1][None, :, :]
        ieee = terms.sum(axis=-1) + c.astype(np.float64)
    clean = [
        np.where(np.isfinite(v), x, 0).astype(np.uint8) for v, x in zip(values, (a, b), strict=True)
    ]
    d = np.where(np.isfinite(c), c, 0).astype(np.float32)
    for k in range(0, a.shape[1], 32):
        step = [
            Codes(x[:, k : k + 32], f) for x, f in zip(clean, (a_format, b_format), strict=True)
        ]
        d = finite_step(*step, d)
    bits = np.where(np.isfinite(ieee), d, ieee.astype(np.float32)).view(np.uint32)
    return np.where(np.isnan(ieee), np.uint32(0x7FFFFFFF), bits)


def codes(rows, steps):
    dense = st.binary(min_size=rows * 32 * steps, max_size=rows * 32 * steps)
    sparse = st.sampled_from([0xFF, 0x80, 0x8F, 0x87, 0xBF])  # which bits of a code may be set
    mask = st.lists(sparse, min_size=32 * steps, max_size=32 * steps)
    shape = (rows, 32 * steps)
    return st.builds(
        lambda raw, keep: np.frombuffer(raw, np.uint8).reshape(shape) & np.array(keep, np.uint8),
        dense,
        mask,
    )


def accumulators():
    special = st.sampled_from([0, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7F7FFFFF])
    element = st.integers(0, 0xFFFFFFFF) | special | st.integers(0x33000000, 0x4B000000)
    matrix = st.lists(element, min_size=M * N, max_size=M * N)
    return matrix.map(lambda x: np.array(x, np.uint32).reshape(M, N).view(np.float32))


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    data=st.data(),
    steps=st.integers(1, 3),
    formats=st.tuples(*[st.sampled_from([E4M3, E5M2])] * 2),
)
def test_fast_equals_reference(data, steps, formats):
    a, b = data.draw(codes(M, steps)), data.draw(codes(N, steps))
    c = data.draw(accumulators())
    got = hopper.wgmma(a, b, c, a_format=formats[0], b_format=formats[1])
    assert np.array_equal(got.view(np.uint32), reference(a, b, c, *formats))


@pytest.mark.parametrize("family", FAMILIES)
def test_fast_equals_reference_on_adversarial_operands(family):
    made = tiles(Form(n=24, k=64), family, seed=5)
    a, b, c = made.a[0], made.b[0], made.c[0].view(np.float32)
    assert np.array_equal(hopper.wgmma(a, b, c).view(np.uint32), reference(a, b, c))


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_equals_numpy(family):
    made = tiles(Form(n=24, k=64, b_type="e5m2"), family, seed=6)
    a, b, c = made.a[0], made.b[0], made.c[0].view(np.float32)
    want = hopper.wgmma(a, b, c, b_format=E5M2)
    got = hopper.wgmma(*(torch.from_numpy(x.copy()) for x in (a, b, c)), b_format=E5M2)
    assert np.array_equal(got.numpy().view(np.uint32), want.view(np.uint32))


def test_tiling_and_threads_change_nothing(monkeypatch):
    made = tiles(Form(n=256, k=64), "random", count=2, seed=7)
    a, b, c = E4M3.decode(made.a), E4M3.decode(made.b), made.c.view(np.float32)
    want = wgmma_values(a, b, c)
    monkeypatch.setattr(wgmma_fast, "_TILE", {"numpy": 1 << 9, "torch": 1 << 9})
    monkeypatch.setattr(wgmma_fast, "_THREADED_FROM", 1)
    assert np.array_equal(wgmma_values(a, b, c), want)


def test_leading_dimensions_broadcast():
    made = tiles(Form(n=16), "attention", count=6, seed=8)
    a, b = E4M3.decode(made.a).reshape(2, 3, 64, 32), E4M3.decode(made.b)[:3]
    c = np.zeros((64, 16), np.float32)
    got = wgmma_values(a, b, c)
    assert got.shape == (2, 3, 64, 16)
    assert np.array_equal(got[1, 2], wgmma_values(a[1, 2], b[2], c))


def test_flags():
    made = tiles(Form(n=16), "random", seed=9)
    a, b, c = made.a[0], made.b[0], made.c[0].view(np.float32)
    flipped = hopper.wgmma(a ^ 0x80, b, c)
    assert np.array_equal(hopper.wgmma(a, b, c, negate_a=True), flipped)
    assert np.array_equal(hopper.wgmma(a, b, c, negate_b=True), flipped)
    nan = np.full_like(c, np.nan)
    fresh = hopper.wgmma(a, b, np.zeros_like(c))
    assert np.array_equal(hopper.wgmma(a, b, nan, scale_d=False), fresh)
    assert not np.array_equal(fresh, flipped)


def test_an_empty_result():
    assert wgmma_values(*(np.zeros(s, np.float32) for s in ((0, 32), (4, 32), (0, 4)))).shape == (
        0,
        4,
    )


def call(**changes):
    arguments = {
        "a": np.full((2, 32), ONE_E4M3),
        "b": np.full((3, 32), ONE_E4M3),
        "c": np.zeros((2, 3), np.float32),
    }
    return hopper.wgmma(**(arguments | changes))


def test_a_correct_call_passes():
    assert call().tolist() == [[32.0] * 3] * 2


WRONG = {
    "a is float32": {"a": np.ones((2, 32), np.float32)},
    "c is float64": {"c": np.zeros((2, 3))},
    "c is float32 for f16": {"accumulator": "f16"},
    "b is transposed": {"b": np.full((32, 3), ONE_E4M3)},
    "k is 16": {"a": np.full((2, 16), ONE_E4M3), "b": np.full((3, 16), ONE_E4M3)},
    "k is 0": {"a": np.zeros((2, 0), np.uint8), "b": np.zeros((3, 0), np.uint8)},
    "c is (N, M)": {"c": np.zeros((3, 2), np.float32)},
    "a is a vector": {"a": np.full(32, ONE_E4M3)},
    "a is batched": {"a": np.full((1, 2, 32), ONE_E4M3)},
    "unknown accumulator": {"accumulator": "f64"},
    "a format that wgmma lacks": {"a_format": BF16},
    "a list": {"a": [[1] * 32]},
    "mixed libraries": {"c": torch.zeros(2, 3)},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_wrong_calls_are_typed_errors(changes):
    with pytest.raises(InputError, match="fix: "):
        call(**changes)


def test_f16_on_torch_is_a_typed_error():
    one = torch.full((2, 32), 0x38, dtype=torch.uint8)
    with pytest.raises(InputError, match="numpy"):
        hopper.wgmma(one, one, torch.zeros(2, 2, dtype=torch.float16), accumulator="f16")
