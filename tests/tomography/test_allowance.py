"""What sums may lose, against tensor cores bit by bit, and how wide the bars are for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dmverify.conformance.families.tomography.designs import design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.tomography.allowance import EXTRA, Terms, U, gamma, gamma_dk
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import E4M3
from dmverify.spec.machine.hopper import wgmma

LENGTH, ROWS = 512, 256


def products(every: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 512 numbers, 0 but for one in ``every``, and the operand they meet: one magnitude."""
    draw = np.random.Generator(np.random.Philox(key=17))
    x = draw.normal(size=(ROWS, LENGTH)) * np.exp(2 * draw.normal(size=(ROWS, LENGTH)))
    x *= np.arange(LENGTH) % every == 0
    return x, np.sign(draw.normal(size=(8, LENGTH))) * 448.0


def lost(got: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Largest error over the sum of magnitudes."""
    return float((np.abs(got - x @ y.T) / (np.abs(x) @ np.abs(y).T)).max())


@pytest.mark.parametrize("every", [1, 8, 64])
def test_one_long_fp8_chain_stays_within_the_allowance_and_not_within_that_of_float32(every):
    x, y = products(every)
    codes = [E4M3.encode(z.astype(np.float32), saturate=True) for z in (x, y)]
    wide = [E4M3.decode(z).astype(np.float64) for z in codes]
    found = lost(wgmma(*codes, np.zeros((ROWS, 8), np.float32)), *wide)
    terms = Terms(live=LENGTH // every, chain=1, length=LENGTH)
    assert found <= gamma(get_contract("cudnn-fp8"), terms)
    assert found > gamma(get_contract("article"), terms)


@pytest.mark.oracle
@pytest.mark.parametrize("every", [1, 8, 64])
def test_a_bf16_chain_stays_within_the_allowance(every):
    nv_ptx = pytest.importorskip("mmasim.nv_ptx", reason="extra 'oracle' is not installed")
    x, y = (torch.from_numpy(z).bfloat16() for z in products(every))
    core = nv_ptx.WGMMA("Hopper", "m64n8k16.f32.bf16.bf16")
    tiles = []
    for tile in x.split(64):
        c = torch.zeros(64, 8)
        for k in range(0, LENGTH, 16):
            c = core(tile[:, k : k + 16].contiguous(), y[:, k : k + 16].T, c)
        tiles.append(c)
    found = lost(torch.cat(tiles).double().numpy(), x.double().numpy(), y.double().numpy())
    terms = Terms(live=LENGTH // every, chain=1, length=LENGTH)
    assert found <= gamma(get_contract("bf16-flash"), terms)
    if every == 1:
        assert found > EXTRA * U  # the allowance is for something


def test_the_forms_differ_as_their_hardware_does():
    setup = Setup(batch=1, heads=2, kv_heads=2, length=LENGTH, head_dim=64, repeats=1)
    found = {}
    for name in ("article", "bf16-flash", "bundled", "cudnn-fp8"):
        found[name] = gamma_dk(get_contract(name), design(setup, name, offset=0.0)[0])
    assert found["article"] == found["bundled"]  # rows a tile apart: every chain is exact
    assert found["article"] < found["bf16-flash"] < 4 * found["article"]
    assert found["cudnn-fp8"] > 2.0**-10  # nobody says that its chains are a tile long


def test_only_fp8_truncates_to_14_bits():
    full = Terms(live=64, chain=64, length=64)
    found = {
        x: gamma(get_contract(x), full) for x in ("article", "bf16-flash", "bundled", "cudnn-fp8")
    }
    assert max(found["article"], found["bf16-flash"]) < 2.0**-16
    assert min(found["bundled"], found["cudnn-fp8"]) > 2.0**-8


def test_bars_of_a_bf16_kernel_are_those_of_its_store():
    setup = Setup(batch=1, heads=2, kv_heads=2, length=128, head_dim=32, runs=4, repeats=1)
    scan = tomograph(torch_math(), setup=setup).scans[0]
    relative = np.median(scan.bar / scan.size)
    assert relative < 0.02  # half a unit of BF16, 2^-9, of 32 channels and 128 keys
