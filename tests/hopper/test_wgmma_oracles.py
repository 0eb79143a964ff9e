"""wgmma against two libraries that nobody here wrote."""

import numpy as np
import pytest
import torch

from dmverify.lab.probes.forms import tiles
from dmverify.lab.probes.operands import FAMILIES
from dmverify.lab.probes.wgmma_source import Form
from dmverify.spec.formats import E4M3, E5M2
from dmverify.spec.machine import hopper

pytestmark = pytest.mark.oracle

FORMATS = {"e4m3": E4M3, "e5m2": E5M2}
TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
PAIRS = [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2")]
FINITE = [name for name in FAMILIES if name not in ("special-codes", "accumulator-bits")]


def operands(family, a_type, b_type, accumulator="f32"):
    form = Form(n=16, a_type=a_type, b_type=b_type, accumulator=accumulator)
    made = tiles(form, family, seed=11)
    dtype = np.float32 if accumulator == "f32" else np.float16
    return made.a[0], made.b[0], made.c[0].view(dtype)


def as_torch(codes, kind):
    return torch.from_numpy(codes).view(TORCH[kind])


@pytest.mark.parametrize("accumulator", ["f32", "f16"])
@pytest.mark.parametrize(("a_type", "b_type"), PAIRS)
@pytest.mark.parametrize("family", FINITE)
def test_wgmma_equals_mmasim(family, a_type, b_type, accumulator):
    nv_ptx = pytest.importorskip("mmasim.nv_ptx", reason="extra 'oracle' is not installed")
    a, b, c = operands(family, a_type, b_type, accumulator)
    c = np.where(np.isfinite(c), c, 0).astype(c.dtype)
    core = nv_ptx.WGMMA("Hopper", f"m64n16k32.{accumulator}.{a_type}.{b_type}")
    want = core(as_torch(a, a_type), as_torch(b, b_type).T, torch.from_numpy(c.copy())).numpy()
    formats = {"a_format": FORMATS[a_type], "b_format": FORMATS[b_type]}
    got = hopper.wgmma(a, b, c, accumulator=accumulator, **formats)
    assert np.array_equal(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("family", ["random", "cancelling", "window", "attention"])
def test_chained_wgmma_equals_mmaemu(family):
    mmaemu = pytest.importorskip("mmaemu", reason="extra 'oracle' is not installed")
    made = tiles(Form(n=16, k=128), family, seed=12)
    a, b = made.a[0], made.b[0]
    kind = {"use_fast_accum": True, "splitk": 1, "backend": "reference"}
    want = mmaemu.accumulate(as_torch(a, "e4m3"), as_torch(b, "e4m3"), **kind).numpy()
    got = hopper.wgmma(a, b, np.zeros((64, 16), np.float32))
    assert np.array_equal(got, want)


def test_the_comparison_can_fail():
    """A sum that is only rounded once differs from the oracle's."""
    nv_ptx = pytest.importorskip("mmasim.nv_ptx", reason="extra 'oracle' is not installed")
    a, b, c = operands("random", "e4m3", "e4m3")
    core = nv_ptx.WGMMA("Hopper", "m64n16k32.f32.e4m3.e4m3")
    want = core(as_torch(a, "e4m3"), as_torch(b, "e4m3").T, torch.from_numpy(c.copy())).numpy()
    once = E4M3.decode(a).astype(np.float64) @ E4M3.decode(b).T.astype(np.float64) + c
    assert np.mean(once.astype(np.float32) != want) > 0.5
