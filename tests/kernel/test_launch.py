"""The plan of stripes, the choice of variants, and refusals, none of which need a GPU."""

import pytest
import torch

from dmverify.kernel import launch
from dmverify.kernel.api import dm_attn_func
from dmverify.kernel.build import KERNELS
from dmverify.kernel.errors import UnsupportedError
from dmverify.kernel.launch import Options, consumer_groups
from dmverify.kernel.limits import MOST_KEYS
from dmverify.kernel.stripes import (
    LEAST_UNITS,
    MOST_UNITS,
    RECORD,
    Shape,
    records_before,
    records_in,
    stripes,
    unit_bytes,
    units_in,
)

SHAPES = [
    Shape(1, 16, 16, 8192, 8192, 128),
    Shape(1, 64, 8, 16384, 16384, 128),
    Shape(2, 6, 2, 300, 77, 64),
    Shape(3, 7, 1, 129, 1, 256),
    Shape(1, 16, 16, 65536, 65536, 128),
    Shape(1, 1, 1, 1, 1, 64),
]


def heads_of(stripe):
    return [stripe.first_head + i * stripe.head_step for i in range(stripe.heads)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("units", [1, 2, 3, 7, 64, 528])
def test_stripes_cover_every_unit_once_and_a_group_in_order(shape, units):
    order = [
        (head, block)
        for s in stripes(shape, units=units)
        for head in heads_of(s)
        for block in range(s.first_block, s.first_block + s.blocks)
    ]
    heads, blocks = shape.batch * shape.heads, shape.q_blocks
    assert sorted(order) == [(h, b) for h in range(heads) for b in range(blocks)]
    group = shape.heads // shape.kv_heads
    for kv in range(heads // group):
        own = [unit for unit in order if unit[0] // group == kv]
        assert own == sorted(own)  # the order of the reduction


@pytest.mark.parametrize(
    ("heads", "blocks", "most", "groups"),
    [(16, 128, 3, 3), (16, 128, 2, 2), (2, 256, 3, 2), (88, 9, 3, 3), (88, 8, 3, 3), (87, 9, 3, 2)],
)
def test_three_warpgroups_where_every_multiprocessor_gets_two_ctas(heads, blocks, most, groups):
    assert consumer_groups(heads, blocks, most=most) == groups


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("units", [1, 3, 64, 528])
def test_stripes_are_small_and_take_whole_groups_or_one_head_or_part_of_one_group(shape, units):
    group = shape.heads // shape.kv_heads
    for s in stripes(shape, units=units):
        assert s.heads * s.blocks <= units
        groups = {head // group for head in heads_of(s)}
        whole = s.head_step == 1 and s.first_head % group == 0 and s.heads % group == 0
        apart = s.head_step == group and len(groups) == s.heads
        assert whole or apart or len(groups) == 1


def test_a_stripe_below_a_group_takes_a_head_of_each_of_several_groups():
    plan = stripes(Shape(1, 64, 8, 16_384, 16_384, 128), units=512)
    assert {(s.head_step, s.heads) for s in plan} == {(8, 4)}
    alone = stripes(Shape(1, 8, 1, 16_384, 16_384, 128), units=512)  # no other group to take from
    assert {(s.head_step, s.heads) for s in alone} == {(1, 4)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (64, 64), (300, 77), (77, 300), (1000, 1), (513, 512)])
def test_a_block_has_a_record_of_every_tile_that_it_sees(size, causal):
    nq, nk = size
    shape, before = Shape(1, 1, 1, nq, nk, 64), 0
    for block in range(2 * shape.q_blocks + 1):
        assert records_before(shape, block, causal=causal) == before
        last = min(nk, 64 * (block + 1) + nk - nq) if causal else nk
        before += -(-max(0, last) // 64)


GB = 10**9


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [1, 64, 1000, 8192, 8193, 12_000, 16_384, 32_768, MOST_KEYS])
@pytest.mark.parametrize(("heads", "kv_heads"), [(16, 16), (64, 8), (3, 1)])
def test_the_usual_workspace_is_small_and_its_stripes_are_not(keys, heads, kv_heads, causal):
    shape = Shape(1, heads, kv_heads, keys, keys, 128)
    plan = stripes(shape, units=units_in(None, shape, causal=causal))
    most = max(s.heads * s.blocks for s in plan)
    assert most <= MOST_UNITS
    size = max(RECORD * records_in(shape, s, causal=causal) for s in plan)
    if keys <= 16_384:
        assert size <= 1.15 * GB  # with dO's codes 1.2 GB, 16 heads of 128
    else:
        assert size <= max(1.15 * GB, LEAST_UNITS * unit_bytes(keys))
    if heads * -(-keys // 128) >= LEAST_UNITS:
        whole = -(-keys // 128)  # a stripe is at least so many units but for whole heads
        assert plan[0].heads * plan[0].blocks > LEAST_UNITS / 2 - max(whole, kv_heads)


def test_causal_stripes_are_twice_as_large_in_the_same_workspace():
    shape = Shape(1, 16, 16, 16_384, 16_384, 128)
    units = [units_in(None, shape, causal=causal) for causal in (False, True)]
    assert units == [256, 512]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("workspace", [4 * 8224, 10**6, 10**8, GB, 10 * GB])
@pytest.mark.parametrize("keys", [1, 129, 5000])
def test_records_fit_the_workspace_that_is_given(workspace, keys, causal):
    shape = Shape(2, 3, 1, 2 * keys, keys, 64)
    if workspace < unit_bytes(keys):
        with pytest.raises(UnsupportedError, match=f"from {unit_bytes(keys)}"):
            units_in(workspace, shape, causal=causal)
        return
    units = units_in(workspace, shape, causal=causal)
    plan = stripes(shape, units=units)
    assert all(RECORD * records_in(shape, s, causal=causal) <= workspace for s in plan)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5e9, "1 GB", 4 * 8224 - 1, 1 << 63])
def test_what_is_no_workspace_is_refused(wrong):
    with pytest.raises(UnsupportedError, match=r"workspace_bytes=.*32896"):
        units_in(wrong, Shape(1, 1, 1, 100, 100, 64), causal=True)


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
    assert ("quantise_first" in met) == centred
    last = met["quantise_rest"]
    sums, means, flip = (last[name] for name in ("sums", "means", "flip"))
    assert last["q_shift"] is operands.q_shift  # zeros where no mean is taken, which F adds
    assert (sums is not None, means, flip) == (centred, None, 0)


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
