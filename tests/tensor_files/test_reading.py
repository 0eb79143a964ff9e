"""What a file of tensors says is read as it stands, whatever wrote it, and nothing is rounded."""

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dmverify.conformance.families import generate
from dmverify.conformance.tensor_files import Source, bring_file, read_cases
from dmverify.errors import InputError
from tests.tensor_files.making import SHAPES, numbers, saved, tensors

KINDS = ("safetensors", "npz", "pt")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gives_the_same_case(kind, tmp_path):
    (found,) = read_cases(Source(saved(tmp_path / f"x.{kind}", kind)))
    for name, x in numbers().items():
        np.testing.assert_array_equal(getattr(found.inputs, name), x)
    problem = found.problem
    assert (problem.heads, problem.kv_heads, problem.queries, problem.keys) == (4, 2, 9, 11)
    assert problem.causal
    assert problem.softmax_scale is None
    assert found.has_gradient
    assert not found.outputs


def test_the_same_numbers_have_the_same_id_and_others_another(tmp_path):
    ids = [bring_file(Source(saved(tmp_path / f"x.{kind}", kind)))[0] for kind in KINDS]
    assert len(set(ids)) == 1
    others = {
        "numbers": saved(tmp_path / "seed.pt", "pt", seed=1),
        "mask": saved(tmp_path / "full.pt", "pt", causal=False),
        "scale": saved(tmp_path / "scale.pt", "pt", softmax_scale=0.5),
    }
    found = [bring_file(Source(path))[0] for path in others.values()]
    assert len({*ids, *found}) == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separator", [".", "/"])
def test_a_prefix_chooses_among_cases(kind, separator, tmp_path):
    path = tmp_path / f"two.{kind}"
    second = {f"b.1{separator}{name}": x for name, x in tensors(1).items()}
    saved(path, kind, prefix=f"a{separator}", **second)
    assert len(list(read_cases(Source(path)))) == 2
    (found,) = read_cases(Source.parse(f"{path}:b.1"))
    np.testing.assert_array_equal(found.inputs.q, numbers(1)["q"])
    with pytest.raises(InputError, match="c"):
        list(read_cases(Source.parse(f"{path}:c")))


def test_each_format_that_float32_holds_is_read(tmp_path):
    exact = {name: torch.round(x.float() * 8) / 8 for name, x in tensors().items()}
    for dtype in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
        path = tmp_path / f"{dtype}.pt".removeprefix("torch.")
        torch.save({**{name: x.to(dtype) for name, x in exact.items()}, "causal": True}, path)
        (found,) = read_cases(Source(path))
        np.testing.assert_array_equal(found.inputs.q, exact["q"].numpy())


def test_views_columns_first_and_names_in_capitals(tmp_path):
    ours = tensors()
    swapped = {name: x.transpose(1, 2).contiguous() for name, x in ours.items()}
    torch.save(
        {
            "m": {"q": swapped["q"].transpose(1, 2), "K": ours["k"], "v": ours["v"][:, :, :, :]},
            "m.dO": ours["do"],
            "m.causal": False,
        },
        tmp_path / "views.pt",
    )
    arrays = {name: np.asfortranarray(x) for name, x in numbers().items()}
    np.savez(tmp_path / "columns.npz", **arrays, causal=np.False_)
    for name in ("views.pt", "columns.npz"):
        (found,) = read_cases(Source(tmp_path / name))
        for tensor, x in numbers().items():
            np.testing.assert_array_equal(getattr(found.inputs, tensor), x)


def test_bf16_as_numpy_writes_it(tmp_path):
    arrays = {name: x.astype(ml_dtypes.bfloat16) for name, x in numbers().items()}
    np.savez(tmp_path / "x.npz", **arrays, causal=True)
    (found,) = read_cases(Source(tmp_path / "x.npz"))
    np.testing.assert_array_equal(found.inputs.v, numbers()["v"])


FP8 = {
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float8_e5m2: ml_dtypes.float8_e5m2,
    torch.int8: np.int8,
}


def coded():
    """q and v in E4M3, k in INT8, dO in E5M2, each with a scale; and an O in E4M3."""
    given = tensors()
    codes = {name: given[name].to(torch.float8_e4m3fn) for name in ("q", "v")}
    codes |= {"k": (given["k"].float() * 40).to(torch.int8), "o": codes["q"].clone()}
    codes["do"] = given["do"].to(torch.float8_e5m2)
    return codes | {f"{name}_scale": torch.tensor([0.5]) for name in SHAPES}


def as_arrays(codes):
    """The same as ml_dtypes and numpy have them."""
    return {
        name: x.view(torch.uint8).numpy().view(FP8[x.dtype]) if x.dtype in FP8 else x.numpy()
        for name, x in codes.items()
    }


@pytest.mark.parametrize("kind", [*KINDS, "bytes"])
def test_codes_of_eight_bits_are_read_from_every_kind(kind, tmp_path):
    codes, words = coded(), dict.fromkeys(("q_format", "v_format", "o_format"), "e4m3")
    path = tmp_path / f"x.{'pt' if kind == 'bytes' else kind}"
    if kind == "safetensors":
        save_file(codes, path, metadata={"causal": "1"})
    elif kind == "npz":  # numpy writes E4M3 as bytes without a meaning
        np.savez(path, **as_arrays(codes), **words, causal=True)
    elif kind == "pt":
        torch.save({**codes, "causal": True}, path)
    else:
        views = {name: codes[name].view(torch.uint8) for name in ("q", "v", "o", "do")}
        torch.save({**codes, **views, **words, "do_format": "E5M2", "causal": True}, path)
    (found,) = read_cases(Source(path))
    for name in SHAPES:
        np.testing.assert_array_equal(getattr(found.inputs, name), codes[name].float().numpy())
        assert found.inputs.scales[name].shape == (1, 1, 1, 1)
    np.testing.assert_array_equal(found.outputs["o"], codes["o"].float().numpy())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({}, "q_format"),
        ({"q_format": "e4m3", "v_format": "e3m4"}, "e3m4"),
        ({"q_format": "e4m3", "v_format": "e4m3", "do_format": "e4m3"}, "nothing else"),
    ],
)
def test_bytes_are_what_the_file_says_and_nothing_is_guessed(words, named, tmp_path):
    arrays = as_arrays(coded())
    del arrays["o"]
    np.savez(tmp_path / "x.npz", **arrays, **words, causal=True)
    with pytest.raises(InputError, match=named):
        list(read_cases(Source(tmp_path / "x.npz")))


def test_codes_of_a_pt_file_have_a_scale(tmp_path):
    codes = coded()
    del codes["v_scale"]
    torch.save({**codes, "causal": True}, tmp_path / "x.pt")
    with pytest.raises(InputError, match="v_scale"):
        list(read_cases(Source(tmp_path / "x.pt")))


def test_heads_before_tokens_are_moved_only_where_the_file_says_so(tmp_path):
    swapped = {name: x.transpose(1, 2).contiguous() for name, x in tensors().items()}
    save_file(swapped, tmp_path / "x.safetensors", metadata={"causal": "1", "layout": "bhnd"})
    (found,) = read_cases(Source(tmp_path / "x.safetensors"))
    assert found.inputs.q.shape == SHAPES["q"]
    np.testing.assert_array_equal(found.inputs.q, numbers()["q"])


def test_options_say_what_the_file_leaves_open_and_do_not_overrule_it(tmp_path):
    bare = tmp_path / "bare.safetensors"
    save_file(tensors(), bare)
    with pytest.raises(InputError, match="--causal or --full"):
        list(read_cases(Source(bare)))
    (found,) = read_cases(Source(bare, causal=False, softmax_scale=0.5))
    assert not found.problem.causal
    assert found.problem.softmax_scale == 0.5
    with pytest.raises(InputError, match="not overruled"):
        list(read_cases(Source(saved(tmp_path / "x.pt", "pt"), causal=False)))


def test_without_a_gradient_the_forward_pass_alone_is_asked(tmp_path):
    given = tensors()
    del given["do"]
    torch.save({**given, "causal": True}, tmp_path / "x.pt")
    (case_id,) = bring_file(Source(tmp_path / "x.pt"))
    case = generate(case_id, contract="article")
    assert not case.backward
    assert not case.inputs.do.any()


def test_a_file_that_changed_is_not_taken_for_the_one_that_was_named(tmp_path):
    path = saved(tmp_path / "x.pt", "pt")
    (case_id,) = bring_file(Source(path))
    assert generate(case_id, contract="article").id == case_id
    saved(path, "pt", seed=5)
    with pytest.raises(InputError, match="other numbers"):
        generate(case_id, contract="article")
