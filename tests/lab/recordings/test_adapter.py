"""The adapter without a GPU: what it refuses, how tensors are placed, what poison finds."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dmverify.conformance.adapter import Dumps, Supported, Unsupported
from dmverify.conformance.families import generate
from dmverify.conformance.kernels import bundled as module
from dmverify.conformance.kernels.bundled_launch import Choices, options_of, place
from dmverify.conformance.kernels.certify import all_variants, variants_of
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.session import Session
from dmverify.errors import ContractError, InputError, KernelError, UnknownNameError
from dmverify.kernel import launch
from dmverify.kernel.build import Edit
from dmverify.lab.acceptance.poison import GUARD, poisoned

EDITS = (Edit("tasks.cuh", "a", "b"),)


@pytest.fixture
def kernel():
    return resolve_kernel("bundled")


@pytest.mark.parametrize(
    ("case", "contract", "reason"),
    [
        ("lengths/n1@0", "article", "follows the contract bundled"),
        ("lengths/n1@0", "bundled:q_block=64", "follows the contract bundled"),
        ("lengths/n1@0", "bundled:centre_k=mean,operand_rule=amax", "follows the contract bundled"),
        ("lengths/head-dim-96@0", "bundled", "head_dim 96"),
        ("lengths/n1@0", "bundled", "no Hopper GPU"),
    ],
)
def test_what_is_not_served_is_refused_with_the_reason(kernel, monkeypatch, case, contract, reason):
    monkeypatch.setattr(module, "hopper_present", lambda: False)
    support = kernel.supports(generate(case, contract=contract))
    assert isinstance(support, Unsupported)
    assert reason in support.reason


@pytest.mark.parametrize("centre_k", ["blocked-mean", "none"])
@pytest.mark.parametrize("normaliser", ["codes", "unrounded"])
def test_the_contract_chooses_centring_and_normaliser(kernel, monkeypatch, centre_k, normaliser):
    monkeypatch.setattr(module, "hopper_present", lambda: True)
    name = f"bundled:delta=stale,centre_k={centre_k},normaliser={normaliser}"
    case = generate("lengths/n1,head_dim=64@0", contract=name)
    assert kernel.supports(case) == Supported()
    options = options_of(case, Choices())
    assert (options.centre_k, options.normaliser) == (centre_k, normaliser)
    built = set(variants_of(options, 64))
    assert [v.centred for v in built if v.kernel == "quantise"] == [centre_k != "none"]
    assert [v.unrounded for v in built if v.kernel == "forward"] == [normaliser == "unrounded"]
    assert all(v.centred for v in built if v.kernel != "quantise")
    assert not any(v.unrounded for v in built if v.kernel != "forward")
    assert built <= set(all_variants())


def test_the_case_chooses_mode_cast_and_scale():
    case = generate("logit-size/negative-scale@0", contract="bundled:delta=stale,ds_cast=zero-sum")
    options = options_of(case, Choices(compiler="nvcc", flags=("-x",), edits=EDITS, dump=True))
    assert (options.mode, options.zero_sum, options.causal) == ("stale", True, True)
    assert options.scale == case.problem.scale < 0
    assert (options.compiler, options.flags, options.edits, options.dump) == (
        "nvcc",
        ("-x",),
        EDITS,
        True,
    )
    with pytest.raises(ContractError):
        options_of(generate("lengths/n1@0", contract="upstream"), Choices())


LAYOUTS = ("packed", "heads-first", "sparse-rows", "expanded", "misaligned")


@pytest.mark.parametrize("name", [*(f"layout/{x}@0" for x in LAYOUTS), "special/around@0"])
def test_tensors_keep_numbers_strides_and_misalignment(name):
    case = generate(name)
    tensors = place(case, device="cpu")
    for which, array in case.inputs.items():
        tensor = getattr(tensors, which)
        assert np.array_equal(tensor.float().numpy(), array, equal_nan=True)
        pairs = zip(tensor.stride(), array.strides, array.shape, strict=True)
        assert all(got == step // 4 for got, step, size in pairs if size > 1)
        assert tensor.data_ptr() // 2 % 4 == array.__array_interface__["data"][0] // 4 % 4


def test_what_lies_between_the_elements_is_nan():
    tensor = place(generate("layout/sparse-rows@0"), device="cpu").q
    between = tensor.as_strided((8,), (1,), tensor.shape[-1])
    assert torch.isnan(between).all()


def test_empty_tensors_are_placed():
    tensors = place(generate("lengths/no-keys@0"), device="cpu")
    assert tensors.k.shape[1] == 0


def test_buffers_are_poisoned_only_inside():
    like, kept = torch.zeros(1), []
    before = launch.empty
    with poisoned(kept.append):
        inside = launch.empty(3, dtype=torch.float32, like=like)
        assert launch.empty(0, dtype=torch.float32, like=like).numel() == 0
    assert torch.isnan(inside).all()
    assert kept[0] is inside
    assert launch.empty is before
    with pytest.raises(RuntimeError), poisoned():
        raise RuntimeError
    assert launch.empty is before


@pytest.mark.parametrize("at", [-1, 12])
def test_a_write_beyond_a_buffer_is_noticed(at):
    with pytest.raises(KernelError, match="of shape \\(3,\\) were written"):
        written(at)
    written(0)


def written(at):
    """Writes one byte, counted from the buffer's start."""
    with poisoned():
        buffer = launch.empty(3, dtype=torch.float32, like=torch.zeros(1))
        assert buffer.data_ptr() % 16 == 0
        whole = torch.empty(0, dtype=torch.uint8).set_(buffer.untyped_storage())
        whole[GUARD + at] = 0


def test_every_buffer_of_a_launch_is_poisoned():
    """torch.empty and its kin are called in one place, so that poison misses none."""
    text = Path(launch.__file__).read_text()
    made = re.findall(r"torch\.(?:empty|zeros|ones|full|new)\w*\(|\.new_\w+\(", text)
    assert made == ["torch.empty("]


def test_captures_can_be_padded_with_channels_of_zeros():
    small, wide = (generate(f"capture/minilm/layer0{x}@0") for x in ("", ",head_dim=64"))
    assert wide.id == "capture/minilm/layer0,head_dim=64@0"
    assert wide.problem.scale == small.problem.scale
    assert np.array_equal(wide.inputs.k[..., :32], small.inputs.k)
    assert not wide.inputs.k[..., 32:].any()
    with pytest.raises(InputError, match="appended"):
        generate("capture/minilm/layer0,head_dim=16@0")
    with pytest.raises(UnknownNameError, match="keys"):
        generate("capture/minilm/layer0,keys=64@0")


def test_the_inside_is_shown_of_cases_that_have_one(kernel, monkeypatch):
    monkeypatch.setattr(module, "inside", lambda case, choices: case.id)
    shown = {
        case: kernel.internals(generate(case)) is not None
        for case in ("lengths/n17@0", "lengths/no-queries@0", "lengths/no-keys@0")
    }
    assert list(shown.values()) == [True, False, False]
    monkeypatch.setattr(module, "MOST_SCORES", 16)
    assert kernel.internals(generate("lengths/n17@0")) is None
    assert isinstance(kernel, Dumps)
    assert Session(kernel, generate("lengths/no-keys@0")).internals() is None
