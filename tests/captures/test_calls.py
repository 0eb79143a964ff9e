"""``dmverify.capture``: what a model's attention calls saw, in a file that a command judges."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

import dmverify
from dmverify.conformance.tensor_files import Source, read_cases
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError, NothingRanError

WIDTH, HEADS, TOKENS = 64, 2, 33


class Block(nn.Module):
    """An attention layer that calls torch's function by a name of its own module."""

    def __init__(self, causal=True, **options):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.options = {"is_causal": causal, **options}

    def forward(self, x):
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (y.reshape(shape).transpose(1, 2) for y in self.project(x).chunk(3, -1))
        found = scaled_dot_product_attention(q, k, v, **self.options)
        return found.transpose(1, 2).reshape(x.shape)


class Broken(nn.Module):
    def forward(self, x):
        raise ValueError("not enough values")


def ran(module, path, *, backward=True, **options):
    torch.manual_seed(0)
    dtype = next(module.parameters(), torch.empty(0)).dtype
    with dmverify.capture(module, path, **options) as taken:
        found = module(torch.randn(2, TOKENS, WIDTH).to(dtype))
        if backward:
            (found * torch.randn_like(found)).sum().backward()
    return taken


def test_a_transformer_with_random_weights_is_judged_in_one_command(tmp_path):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 128, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    taken = ran(model, tmp_path / "calls.safetensors")
    assert taken.written == ("layers.0.self_attn.0", "layers.1.self_attn.1")
    assert taken.left_out == []
    report = dmverify.verify("simulation", inputs=[str(tmp_path / "calls.safetensors")])
    assert report.ok
    assert report.served.served == 2
    (first, _) = read_cases(Source(tmp_path / "calls.safetensors"))
    assert first.has_gradient
    assert first.inputs.do.any()
    assert not first.problem.causal


def test_what_is_kept_is_what_the_call_saw(tmp_path):
    block = Block().bfloat16()
    taken = ran(block, tmp_path / "x.safetensors", outputs=True)
    assert taken.written == ("0",)
    (found,) = read_cases(Source(tmp_path / "x.safetensors"))
    tensors = [
        torch.from_numpy(getattr(found.inputs, name)).transpose(1, 2).requires_grad_(name != "do")
        for name in ("q", "k", "v", "do")
    ]
    o = scaled_dot_product_attention(*tensors[:3], is_causal=True)
    o.backward(tensors[3])
    again = {"o": o.detach(), "dq": tensors[0].grad, "dk": tensors[1].grad, "dv": tensors[2].grad}
    for name, x in again.items():
        due = x.transpose(1, 2).numpy()
        np.testing.assert_allclose(found.outputs[name], due, atol=0.02 * np.abs(due).max())
    assert found.problem.causal
    assert found.problem.softmax_scale == (WIDTH // HEADS) ** -0.5


def test_what_a_function_does_unless_told_otherwise_is_what_it_saw(tmp_path):
    def attend(q, k, v, causal=True, scale=0.5):
        heads = [x.float().transpose(1, 2) for x in (q, k, v)]
        found = scaled_dot_product_attention(*heads, is_causal=causal, scale=scale)
        return found.transpose(1, 2).bfloat16()

    path = tmp_path / "x.safetensors"
    with dmverify.capture(attend, path, outputs=True) as kept:
        kept(*(torch.randn(1, 40, 2, 32).bfloat16() for _ in "qkv"))
    (case,) = read_cases(Source(path))
    assert case.problem.causal
    assert case.problem.softmax_scale == 0.5
    assert dmverify.verify(contract="bf16-math", inputs=[str(path)], checks=["o"]).ok


def test_outputs_of_other_inputs_than_the_file_s_are_left_out(tmp_path):
    """In float32 a model computes with numbers that BF16 has not: a verdict would mislead."""
    taken = ran(Block(), tmp_path / "x.safetensors", outputs=True)
    (said,) = taken.left_out
    assert set(said.partition(" of ")[0].split(", ")) == {"o", "dq", "dk", "dv"}
    assert "do, k, q, v holds numbers that BF16 has not" in said
    (found,) = read_cases(Source(tmp_path / "x.safetensors"))
    assert not found.outputs
    assert found.has_gradient


def test_gradients_of_another_do_are_left_out_and_o_is_kept(tmp_path):
    q, k, v = (torch.randn(1, 2, 8, 32).bfloat16().float().requires_grad_() for _ in "qkv")
    path = tmp_path / "x.safetensors"
    with dmverify.capture(scaled_dot_product_attention, path, outputs=True) as taken:
        functional.scaled_dot_product_attention(q, k, v).square().sum().backward()
    (found,) = read_cases(Source(path))
    assert set(found.outputs) == {"o"}
    assert "do holds numbers" in taken.left_out[0]


def test_gradients_are_of_the_call_and_not_of_the_tensor(tmp_path):
    q = torch.randn(1, 2, 8, 32).bfloat16().requires_grad_()
    with dmverify.capture(
        functional.scaled_dot_product_attention, tmp_path / "x.safetensors", outputs=True
    ):
        found = functional.scaled_dot_product_attention(q, q, q)
        (found.sum() + 1000 * q.sum()).backward()  # dO is 1
    (case,) = read_cases(Source(tmp_path / "x.safetensors"))
    assert np.abs(case.outputs["dv"]).max() < 100
    assert q.grad.abs().max() > 900


def test_a_kernel_of_a_model_is_judged_without_running_it_again(tmp_path):
    def attend(wrong, q, k, v, *, causal):
        heads = [x.float().transpose(1, 2) for x in (q, k, v)]
        found = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=causal)
        return (found * wrong).transpose(1, 2).bfloat16()

    for wrong in (1.0, 1.25):
        path = tmp_path / f"{wrong}.safetensors"
        torch.manual_seed(0)
        with dmverify.capture(partial(attend, wrong), path, outputs=True) as kept:
            q, k, v = (torch.randn(1, 40, 2, 32).bfloat16().requires_grad_() for _ in "qkv")
            kept(q, k, v, causal=True).float().square().sum().backward()
        report = dmverify.verify(contract="bf16-math", inputs=[str(path)])
        verdicts = {c.id: c.verdict for c in report.checks}
        assert verdicts["o"] is (Verdict.CONFORMS if wrong == 1 else Verdict.FAILS), wrong


def test_without_a_backward_pass_the_forward_pass_is_asked(tmp_path):
    ran(Block(), tmp_path / "x.safetensors", backward=False)
    report = dmverify.verify("simulation", inputs=[str(tmp_path / "x.safetensors")])
    verdicts = {c.id: c.worst for c in report.checks}
    assert report.ok
    assert verdicts["dq"].verdict is Verdict.UNSUPPORTED
    assert "no dO" in verdicts["dq"].reason


def test_heads_are_padded_and_keep_their_scale(tmp_path):
    q = torch.randn(1, 2, 8, 24)
    with dmverify.capture(scaled_dot_product_attention, tmp_path / "x.safetensors"):
        functional.scaled_dot_product_attention(q, q, q)
    (case,) = read_cases(Source(tmp_path / "x.safetensors"))
    assert case.problem.head_dim == 32
    assert case.problem.softmax_scale == 24**-0.5
    assert not case.inputs.q[..., 24:].any()


CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()


@pytest.mark.parametrize(
    ("options", "causal"),
    [
        ({"attn_mask": CAUSAL}, True),
        ({"attn_mask": torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, -torch.inf)}, True),
        ({"attn_mask": torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, -1e38)[None, None]}, True),
        ({"attn_mask": torch.ones_like(CAUSAL)}, False),
        ({}, False),
    ],
)
def test_masks_that_are_none_or_causal_are_taken_as_such(options, causal, tmp_path):
    ran(Block(False, **options), tmp_path / "x.safetensors")
    (case,) = read_cases(Source(tmp_path / "x.safetensors"))
    assert case.problem.causal is causal


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attn_mask": torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu()}, "neither none nor"),
        ({"attn_mask": torch.linspace(-1, 1, TOKENS).expand(TOKENS, -1)}, "adds to logits"),
        ({"dropout_p": 0.5}, "dropout"),
    ],
)
def test_what_cannot_be_a_case_is_left_out_with_its_reason(options, says, tmp_path):
    with pytest.raises(NothingRanError, match=says):
        ran(Block(False, **options), tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


def of_words(q, k, v, **words):
    return scaled_dot_product_attention(
        q, k, v, is_causal=words.get("causal", False), scale=words.get("softmax_scale")
    )


def of_a_model(query, key, value, attention_mask, scaling=None, window=(-1, -1), cap=0.0, **_):
    return [scaled_dot_product_attention(query, key, value, scale=scaling), None]


def operands():
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, TOKENS, 32, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize(
    ("function", "words", "causal", "scale"),
    [
        (of_words, {"causal": True, "softmax_scale": 0.5}, True, 0.5),
        (of_a_model, {"attention_mask": None, "scaling": 0.25}, False, 0.25),
        (of_a_model, {"attention_mask": None, "window": (-1, -1), "other": None}, False, 32**-0.5),
    ],
)
def test_settings_are_taken_wherever_a_function_has_them(function, words, causal, scale, tmp_path):
    path = tmp_path / "calls.safetensors"
    with dmverify.capture(function, path, layout="bhnd", outputs=True) as taken:
        found = taken(*operands(), **words)
        (found[0] if isinstance(found, list) else found).sum().backward()
    (case,) = read_cases(Source(path))
    assert (case.problem.causal, case.problem.softmax_scale) == (causal, scale)
    assert case.has_gradient


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"window": (4, 0)}, "window=(4, 0)"),
        ({"cap": 30.0}, "cap=30.0"),
        ({"bias": torch.ones(1)}, "bias="),
        ({"other": False}, "other=False"),
    ],
)
def test_a_call_with_an_argument_that_no_case_has_is_left_out(words, says, tmp_path):
    path = tmp_path / "calls.safetensors"
    with dmverify.capture(of_a_model, path, layout="bhnd") as taken:
        taken(*operands(), None)
        taken(*operands(), None, **words)
    (reason,) = taken.left_out
    assert says in reason
    assert taken.written == ("0",)


@pytest.mark.parametrize("outputs", [False, True])
@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda q: {"o": q}, "dict"),
        (lambda q: q.transpose(1, 2).flatten(2), "Tensor (1, 33, 64)"),
        (lambda _: [], "list"),
    ],
)
def test_a_result_of_another_form_is_left_out_and_handed_on(result, says, outputs, tmp_path):
    def function(q, k, v, plain=True):
        return q if plain else result(q)

    path = tmp_path / "calls.safetensors"
    with (
        pytest.raises(NothingRanError, match="plain=False"),
        dmverify.capture(function, path, layout="bhnd") as taken,
    ):
        taken(*operands(), plain=False)
    with (
        pytest.raises(NothingRanError) as caught,
        dmverify.capture(lambda q, k, v: result(q), path, outputs=outputs, layout="bhnd") as taken,
    ):
        assert type(taken(*operands())) is type(result(operands()[0]))
    assert says in str(caught.value)


def test_keys_without_heads_are_left_out(tmp_path):
    path = tmp_path / "calls.safetensors"
    q, none = operands()[0], torch.zeros(1, 0, TOKENS, 32)
    with (
        pytest.raises(NothingRanError, match="0 key heads"),
        dmverify.capture(lambda q, k, v: q, path, layout="bhnd") as taken,
    ):
        taken(q, none, none)


def test_other_shapes_are_left_out_and_the_rest_is_written(tmp_path):
    q, k = torch.randn(1, 2, 8, 32), torch.randn(1, 2, 11, 32)
    with dmverify.capture(scaled_dot_product_attention, tmp_path / "x.safetensors") as taken:
        functional.scaled_dot_product_attention(q, k, k)
        functional.scaled_dot_product_attention(q, k, k, is_causal=True)
        functional.scaled_dot_product_attention(q, k, torch.randn(1, 2, 11, 64))
        functional.scaled_dot_product_attention(q[0], k[0], k[0])
    assert taken.written == ("0",)
    assert ["top left" in taken.left_out[0], "v (1," in taken.left_out[1]] == [True, True]
    assert "four extents" in taken.left_out[2]


def test_everything_is_as_it_was_afterwards(tmp_path):
    block = Block()
    with pytest.raises(ValueError, match="not enough values"):
        ran(nn.Sequential(block, Broken()), tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()
    assert functional.scaled_dot_product_attention is scaled_dot_product_attention
    assert not isinstance(scaled_dot_product_attention, type(dmverify.capture))
    assert not block._forward_hooks
    assert not block.project._forward_pre_hooks


def test_calls_outside_the_module_are_not_its_own(tmp_path):
    block, other = Block(), Block()
    torch.manual_seed(0)
    with dmverify.capture(block, tmp_path / "x.safetensors") as taken:
        x = torch.randn(1, TOKENS, WIDTH)
        other(x)
        block(x)
    assert len(taken.written) == 1


@pytest.mark.parametrize(
    ("what", "path", "options"),
    [
        (3, "x.safetensors", {}),
        (len, "x.pt", {}),
        (len, "x.safetensors", {"layout": "hbnd"}),
        (len, "missing/../..", {}),
    ],
)
def test_what_cannot_be_captured_is_refused_at_once(what, path, options, tmp_path):
    with pytest.raises(InputError):
        dmverify.capture(what, tmp_path / path, **options)
