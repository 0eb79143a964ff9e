"""Adapters: layouts, scales and limits, against stand-ins for the modules they call."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from dmverify.conformance.adapter import Unsupported, require_kernel
from dmverify.conformance.families.generate import generate
from dmverify.errors import KernelError
from dmverify.lab.third_party.kernels import PEERS, codes, cudnn_fp8, flash3, torch_sdpa
from dmverify.lab.third_party.kernels.peer import Peer
from dmverify.spec.arithmetic.floating import Double
from dmverify.spec.attention.run import OPERANDS, call_exponents, interpret
from dmverify.spec.case import Case
from dmverify.spec.contracts import get_contract
from tests.lab.third_party import fakes

MAKERS = {
    "torch-math": torch_sdpa.torch_math,
    "flash-3": flash3.flash_3,
    "flash-3-fp8": flash3.flash_3_fp8,
    "cudnn-fp8": cudnn_fp8.cudnn_fp8,
}
SIZES = {
    "torch-math": "batch=2,heads=3,kv_heads=3,queries=40,keys=40,head_dim=64",
    "flash-3": "batch=2,heads=4,kv_heads=2,queries=24,keys=40,head_dim=64",
    "flash-3-fp8": "batch=2,heads=4,kv_heads=2,queries=24,keys=40,head_dim=64",
    "cudnn-fp8": "batch=2,heads=4,kv_heads=2,queries=40,keys=40,head_dim=128",
}
# Of an output's largest value: BF16 store; E4M3 store (2^-4) with E4M3 P and dS.
CLOSE = {"torch-math": 0.006, "flash-3": 0.006, "flash-3-fp8": 0.006, "cudnn-fp8": 0.15}


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cudnn", fakes.CUDNN)
    monkeypatch.setitem(sys.modules, "flash_attn_interface", fakes.FLASH3)
    for cached in (cudnn_fp8._handle, cudnn_fp8._forward, cudnn_fp8._backward):
        cached.cache_clear()


def asked(name: str, peer: Peer, variant: str = "gaussian/spread-2", more: str = "") -> Case:
    return generate(f"{variant},{SIZES[name]}{more}@0", contract=peer.contract)


@pytest.mark.parametrize("name", MAKERS)
def test_outputs_are_attention_on_the_contracts_operands(name: str) -> None:
    peer = MAKERS[name]()
    case = asked(name, peer)
    raw = peer.run(case, backward=peer.limits.backward)
    stated = get_contract(peer.contract)
    want = interpret(stated, case.problem, case.inputs, Double(OPERANDS)).values
    for output in ("o", "lse", "dq", "dk", "dv") if peer.limits.backward else ("o", "lse"):
        got = peer.widened(output, raw)
        assert got.shape == case.problem.shapes()[output]
        off = np.abs(got - want[output]).max() / np.abs(want[output]).max()
        assert off < CLOSE[name], (output, off)


@pytest.mark.parametrize("name", ["flash-3-fp8", "cudnn-fp8"])
def test_a_scale_that_is_dropped_would_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = MAKERS[name]()
    case = asked(name, peer)
    true = codes.coded_inputs

    def without(case: Case, contract: str) -> dict[str, codes.Coded]:
        found = true(case, contract)
        found["v"] = codes.Coded(found["v"].codes, np.ones_like(found["v"].scales))
        return found

    for module in (flash3, cudnn_fp8):
        monkeypatch.setattr(module, "coded_inputs", without)
    got = peer.widened("o", peer.run(case, backward=False))
    run = interpret(get_contract(peer.contract), case.problem, case.inputs, Double(OPERANDS))
    off = np.abs(got - run.values["o"]).max() / np.abs(run.values["o"]).max()
    assert off > CLOSE[name]


def test_operands_are_the_specifications() -> None:
    for name in ("flash-3-fp8", "cudnn-fp8"):
        peer = MAKERS[name]()
        case = asked(name, peer)
        run = interpret(
            get_contract(peer.contract),
            case.problem,
            case.inputs,
            Double(OPERANDS),
            internals=True,
        )
        assert run.internals is not None
        made = codes.coded_inputs(case, peer.contract)
        for operand, coded in made.items():
            want = getattr(run.internals, operand).swapaxes(1, 2)
            np.testing.assert_array_equal(coded.exact(), want)


def test_a_call_has_one_scale_and_a_key_head_one() -> None:
    case = asked("cudnn-fp8", cudnn_fp8.cudnn_fp8())
    assert codes.coded_inputs(case, "cudnn-fp8")["q"].scales.shape == (1, 1)
    assert codes.coded_inputs(case, "flash-3-fp8")["q"].scales.shape == (2, 2)


def test_nan_and_infinity_become_the_nan_code() -> None:
    peer = flash3.flash_3_fp8()
    case = generate(
        "special/q-inf,batch=1,heads=1,kv_heads=1,queries=40,keys=40,head_dim=64@0",
        contract=peer.contract,
    )
    coded = codes.coded_inputs(case, peer.contract)["q"]
    np.testing.assert_array_equal(coded.codes == 0x7F, ~np.isfinite(case.inputs.q))
    assert "finite" in _reason(peer, case)


def test_the_caller_leaves_half_of_the_range() -> None:
    peer = cudnn_fp8.cudnn_fp8()
    case = asked("cudnn-fp8", peer)
    run = interpret(get_contract(peer.contract), case.problem, case.inputs, Double(OPERANDS))
    exponents = call_exponents(get_contract(peer.contract), case.problem, case.inputs)
    for name in ("o", "dq", "dk", "dv"):
        top = np.abs(run.values[name]).max() * 2.0 ** exponents[name]
        assert 112 < top <= 224


def test_amax_numbers_come_along() -> None:
    peer = cudnn_fp8.cudnn_fp8()
    raw = peer.run(asked("cudnn-fp8", peer), backward=True)
    amax = float(raw["amax_ds"]) / float(raw["unit_ds"])
    assert 112 < amax <= 224


def test_limits_say_why() -> None:
    square = SIZES["cudnn-fp8"]
    peers = {name: MAKERS[name]() for name in MAKERS}
    words = {
        "cudnn-fp8": (square.replace("head_dim=128", "head_dim=64"), "head_dim"),
        "torch-math": (SIZES["torch-math"].replace("keys=40", "keys=50"), "top left"),
    }
    for name, (sizes, word) in words.items():
        case = generate(f"gaussian/spread-1,{sizes}@0", contract=peers[name].contract)
        assert word in peers[name].limits.refusal(case.problem)
    grouped = SIZES["torch-math"].replace("kv_heads=3", "kv_heads=1")
    case = generate(f"gaussian/spread-1,{grouped}@0", contract="bf16-math")
    assert "key head" in peers["torch-math"].limits.refusal(case.problem)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_missing_gpu_or_module_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    case = asked("flash-3", flash3.flash_3())
    assert "no GPU" in _reason(torch_sdpa.torch_flash(), case)
    monkeypatch.delitem(sys.modules, "flash_attn_interface")
    assert "flash_attn_interface" in _reason(flash3.flash_3(), case)
    with pytest.raises(KernelError, match="flash_attn_interface"):
        flash3.flash_3().forward(case)


def test_a_forward_only_peer_refuses_its_backward() -> None:
    peer = flash3.flash_3()
    with pytest.raises(NotImplementedError, match="forward only"):
        peer.backward(asked("flash-3", peer))


def test_every_peer_is_a_kernel() -> None:
    for target in PEERS.values():
        module, _, factory = target.partition(":")
        peer = getattr(sys.modules[module], factory)()
        assert require_kernel(peer, target).contract == peer.contract
        assert get_contract(peer.contract).name == peer.contract


def _reason(peer: Peer, case: Case) -> str:
    support = peer.supports(case)
    assert isinstance(support, Unsupported)
    return support.reason
