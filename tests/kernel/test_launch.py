"""The plan of stripes, the choice of variants, and refusals, none of which need a GPU."""

import pytest
import torch

from dmverify.kernel import launch
from dmverify.kernel.api import dm_attn_func
from dmverify.kernel.build import KERNELS
from dmverify.kernel.errors import UnsupportedError
from dmverify.kernel.launch import Options, Shape, stripes

SHAPES = [
    Shape(1, 16, 16, 8192, 8192, 128),
    Shape(1, 64, 8, 16384, 16384, 128),
    Shape(2, 6, 2, 300, 77, 64),
    Shape(3, 7, 1, 129, 1, 256),
    Shape(1, 16, 16, 65536, 65536, 128),
    Shape(1, 1, 1, 1, 1, 64),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("units", [1, 2, 3, 7, 64, 528])
def test_stripes_cover_every_unit_once_in_order(shape, units):
    order = [
        (head, block)
        for s in stripes(shape, units=units)
        for head in range(s.first_head, s.first_head + s.heads)
        for block in range(s.first_block, s.first_block + s.blocks)
    ]
    heads, blocks = shape.batch * shape.heads, shape.q_blocks
    assert order == [(h, b) for h in range(heads) for b in range(blocks)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("units", [1, 3, 64, 528])
def test_stripes_are_small_and_leave_no_group_torn_and_whole(shape, units):
    group = shape.heads // shape.kv_heads
    for s in stripes(shape, units=units):
        assert s.heads * s.blocks <= units
        first, last = s.first_head // group, (s.first_head + s.heads - 1) // group
        whole = s.first_head % group == 0 and s.heads % group == 0
        assert whole or first == last


def test_variants_ignore_choices_that_do_not_reach_them():
    options = Options(True, "stale", True, 0.1)
    assert options.variant("key", 64).mode == "matched"
    assert options.variant("forward", 64).mode == "matched"
    assert not options.variant("forward", 64).zero_sum
    assert options.variant("query", 64).mode == "stale"
    assert Options(True, "shifted", False, 0.1).variant("forward", 64).mode == "shifted"


def test_each_numerical_choice_reaches_the_one_kernel_that_makes_it():
    plain = Options(True, "matched", False, 0.1)
    bare = Options(True, "matched", False, 0.1, "none", "unrounded")
    differ = {k: bare.variant(k, 64) != plain.variant(k, 64) for k in KERNELS}
    assert differ == {"quantise": True, "forward": True, "query": False, "key": False}
    assert not bare.variant("quantise", 64).centred
    assert bare.variant("forward", 64).unrounded


@pytest.mark.parametrize("centre_k", ["blocked-mean", "none"])
def test_keys_that_keep_their_mean_cost_no_launch(monkeypatch, centre_k):
    met = {}

    def start(options, kernel, name, d, *, arguments, **_):
        met[name] = arguments

    monkeypatch.setattr(launch, "start", start)
    x = torch.zeros(1, 130, 2, 64, dtype=torch.bfloat16)
    options = Options(True, "matched", False, 0.1, centre_k)
    _, operands = launch.prepare(x, x, x, options, backward=True)
    centred = centre_k != "none"
    assert ("key_sums" in met) == centred
    for name in ("quantise_key", "quantise_query"):
        assert any(x is not None and x.shape == (2, 64) for x in met[name][5:7]) == centred
    assert any(x is operands.q_shift for x in met["quantise_query"])  # zeros, which F adds


def tensors(d=64, dtype=torch.bfloat16, heads=2):
    return (torch.zeros(1, 4, heads, d, dtype=dtype) for _ in range(3))


@pytest.mark.parametrize(
    ("args", "choices", "rule"),
    [
        (tensors(dtype=torch.float32), {}, "BF16"),
        (tensors(), {}, "Hopper"),
        ((torch.zeros(4, 4, dtype=torch.bfloat16),) * 3, {}, "B, N, H, D"),
    ],
)
def test_what_is_not_served_is_refused(args, choices, rule):
    with pytest.raises(UnsupportedError, match=rule):
        dm_attn_func(*args, **choices)
