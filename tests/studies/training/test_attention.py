"""The attention that models train with: beside the specification, and what each word changes."""

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dmverify.spec.arithmetic import Single
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem
from dmverify.studies.toy_heads import toy_heads
from dmverify.studies.training.attention import backward, bf16, forward
from dmverify.studies.training.casts import CHAIN, cast, zero_sum
from dmverify.studies.training.heads import of_inputs
from dmverify.studies.training.recipe import ACTS, BF16, EXACT, Recipe, fp8

PROBLEM = Problem(batch=1, heads=2, kv_heads=2, queries=128, keys=128, head_dim=32)
KEPT = {"centre_k": "none"}
WORDS = [
    {"delta": "stale"},
    {"delta": "consistent"},
    {"delta": "matched"},
    {"delta": "renormalized"},
    {"delta": "shifted"},
    {"delta": "associated", "normaliser": "codes"},
    {"delta": "matched", "ds_cast": "zero-sum"},
    {"delta": "stale", "centre_k": "none"},
    {"delta": "stale", "normaliser": "codes"},
]


@pytest.fixture(scope="module")
def inputs():
    return toy_heads("gaussian", 2.0, seed=0, problem=PROBLEM)


def passes(recipe, inputs):
    q, k, v, do = of_inputs(inputs)
    fwd = forward(recipe, q, k, v)
    return fwd, backward(recipe, fwd, do)


def distance(ours, theirs):
    """Relative, Frobenius; theirs (B, N, H, D) or, of dS, (B, H, N, N)."""
    theirs = theirs[0] if theirs.shape[1] == PROBLEM.heads else theirs[0].swapaxes(0, 1)
    return np.linalg.norm(ours.double().numpy() - theirs) / np.linalg.norm(theirs)


def differences(recipe, words, inputs):
    """From the specification's float32 run of contract article with these words."""
    found = interpret(get_contract("article", **words), PROBLEM, inputs, Single(), internals=True)
    fwd, bwd = passes(recipe, inputs)
    return {
        "o": distance(fwd.o32, found.internals.o32),
        "ds": distance(bwd.ds, found.internals.ds),
        "ds_cast": distance(bwd.ds8, found.internals.ds_cast),
        **{name: distance(getattr(bwd, name), found.values[name]) for name in ("dq", "dk", "dv")},
    }


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_what_the_specification_says(words, inputs):
    """Apart from a code here and there that another order of a sum rounds the other way."""
    assert max(differences(Recipe(**words), words, inputs).values()) < 2e-3


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (fp8("stale"), {"delta": "consistent"}),
        (fp8("matched"), {"delta": "matched", "ds_cast": "zero-sum"}),
        (fp8("stale", centre_k="none"), {"delta": "stale"}),
        (fp8("stale", normaliser="codes"), {"delta": "stale"}),
        (fp8("matched", blocks="head"), {"delta": "matched"}),
        (fp8("matched", ds_format="e5m2"), {"delta": "matched"}),
        (BF16, {"delta": "matched"}),
    ],
)
def test_another_recipe_is_told_from_it(recipe, words, inputs):
    assert max(differences(recipe, words, inputs).values()) > 2e-3


def test_bf16_rounds_as_torch_does():
    """Every sign, exponent and upper fraction, with lower bits at, below and above the halves."""
    upper = torch.arange(1 << 16, dtype=torch.int64) << 16
    lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    bits = (upper[:, None] | lower).flatten()
    x = (bits - ((bits >> 31) << 32)).to(torch.int32).view(torch.float32)
    x = x[~x.isnan()]
    assert torch.equal(bf16(x).view(torch.int32), x.bfloat16().float().view(torch.int32))


def conversions(function):
    """Operations of a traced function that convert to BF16, which a compiler may drop in pairs."""
    traced = make_fx(function)(torch.ones(2, 2))
    return [node for node in traced.graph.nodes if torch.bfloat16 in node.kwargs.values()]


def test_a_compiler_finds_no_rounding_to_leave_out():
    assert conversions(lambda x: x.bfloat16().float())
    assert not conversions(bf16)


def test_exact_is_what_autograd_differentiates(inputs):
    q, k, v, do = (x.double() for x in of_inputs(inputs))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    hidden = torch.ones(128, 128, dtype=torch.bool).triu(1)
    s = (leaves[0] @ leaves[1].mT * 32**-0.5).masked_fill(hidden, -torch.inf)
    wanted = torch.autograd.grad(s.softmax(-1) @ leaves[2], leaves, do)
    fwd = forward(EXACT, *(x.detach() for x in leaves))
    bwd = backward(EXACT, fwd, do)
    for got, want in zip((bwd.dq, bwd.dk, bwd.dv), wanted, strict=True):
        assert torch.allclose(got, want, rtol=1e-10, atol=1e-12)


def test_the_last_queries_are_those_of_the_whole(inputs):
    q, k, v, _ = of_inputs(inputs)
    assert torch.equal(forward(EXACT, q[:, 96:], k, v).o, forward(EXACT, q, k, v).o[:, 96:])


def column_sums(dk):
    return float(dk.double().sum(-2).abs().max() / dk.double().abs().sum(-2).max())


@pytest.mark.parametrize("act", ["project", "freeze"])
def test_acts_take_the_push_out(act, inputs):
    assert act in ACTS
    assert column_sums(passes(fp8("stale", centre_k="none"), inputs)[1].dk) > 1e-3
    recipe = fp8("stale", centre_k="none", act=act)
    assert column_sums(passes(recipe, inputs)[1].dk) < 1e-6


def test_freeze_holds_the_mean_of_k(inputs):
    fwd, _ = passes(fp8("stale", centre_k="none", act="freeze"), inputs)
    assert float(fwd.k.mean(-2).abs().max()) < 0.05 * float(fwd.k.abs().max())


@pytest.mark.parametrize("base", [EXACT.but(centre_k="none"), fp8("matched", centre_k="none")])
def test_inject_puts_in_stales_push_alone(base, inputs):
    stale = passes(fp8("stale", centre_k="none"), inputs)[1].dk
    plain, pushed = (passes(recipe, inputs)[1].dk for recipe in (base, base.but(act="inject")))
    assert torch.allclose(pushed.mean(-2), stale.mean(-2), rtol=1e-3, atol=1e-7)
    rest, changed = (x - x.mean(-2, keepdim=True) for x in (plain, pushed))
    assert torch.allclose(rest, changed, rtol=1e-4, atol=1e-6)


def test_a_stale_delta_in_one_product_alone(inputs):
    plain, stale = (passes(fp8(delta, **KEPT), inputs)[1] for delta in ("matched", "stale"))
    for act, same, changed in (("stale-dq", "dk", "dq"), ("stale-dk", "dq", "dk")):
        found = passes(fp8("matched", **KEPT, act=act), inputs)[1]
        assert torch.equal(getattr(found, same), getattr(plain, same))
        assert torch.equal(getattr(found, changed), getattr(stale, changed))
        assert not torch.equal(getattr(found, changed), getattr(plain, changed))


def test_alternate_turns_every_other_row_sum(inputs):
    stale, turned = (
        passes(fp8("stale", **KEPT, act=act), inputs)[1].ds.double().sum(-1)
        for act in ("", "alternate")
    )
    signs = torch.tensor([1.0, -1.0]).repeat(stale.shape[-1] // 2)
    assert torch.allclose(turned, signs * stale, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(turned, stale, rtol=1e-3, atol=1e-5)


def test_a_tiny_amax_gives_no_nan():
    """The article's plain rule has a scale of 0 here, and 0/0 ends a training run."""
    tiny = torch.full((1, 64, 64), 1e-44)
    for site in ("e", "ds"):
        assert torch.isfinite(cast(tiny, fp8("matched"), site)).all()


def test_zero_sum_leaves_at_most_one_error_a_chain():
    x = torch.rand(1, 1, 64, 1, 64) * 896 - 448
    left = (zero_sum(x) - x).unflatten(-1, (-1, *CHAIN)).sum((-1, -3)).abs()
    plain = (cast(x.reshape(1, 64, 64), fp8("matched"), "ds").reshape(x.shape) - x).abs()
    assert float(left.max()) <= 16.001
    assert float(plain.sum(-1).max()) > 16.001


def test_masked_keys_stay_zero_under_every_cast():
    ds = torch.randn(1, 64, 64).tril()
    for how in ("nearest", "zero-sum", "stochastic"):
        found = cast(ds, fp8("matched", ds_cast=how), "ds")
        assert (found.triu(1) == 0).all(), how


def test_mx_scales_are_powers_of_two():
    codes = cast(torch.randn(1, 4, 32).exp(), fp8("matched", blocks="mx"), "q")
    units = codes.abs()[codes != 0].frexp().mantissa * 16  # four significant bits, exactly
    assert torch.equal(units, units.round())


def test_stochastic_rounding_keeps_the_mean():
    torch.manual_seed(0)
    x = torch.full((1, 64, 64), 300.0)  # between 288 and 320
    x[0, 0, 0] = 448.0
    found = cast(x, fp8("matched", ds_cast="stochastic"), "ds").flatten()[1:]
    assert set(found.tolist()) == {288.0, 320.0}
    assert abs(float(found.mean()) - 300) < 2
