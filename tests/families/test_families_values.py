"""Distribution and scale families have the property they claim."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dmverify.conformance.families import FAMILIES, generate
from dmverify.conformance.families.rounding import OTHERS, POINTS
from dmverify.spec.formats import BF16, E4M3, E5M2, INT8
from dmverify.spec.scaling import SCALE_RULES, centre, quantise

ROWS_OF_BLOCKS = {"q": 128, "k": 64, "v": 64, "do": 128}


def blocks(case_id: str, name: str, rule: str = "amax"):
    """One operand quantised as the contracts do, (B, H, N, D)."""
    x = getattr(generate(case_id).inputs, name).swapaxes(1, 2)
    return quantise(np.ascontiguousarray(x), rule, block=ROWS_OF_BLOCKS[name])


@pytest.mark.parametrize("variant", list(FAMILIES["constant-v"].variants))
def test_the_constant_is_no_e4m3_number_at_any_power_of_two(variant):
    v = generate(f"constant-v/{variant}").inputs.v
    assert np.unique(v).size == 1
    numerator = Fraction(float(v.flat[0])).numerator
    assert abs(numerator).bit_length() > 4


def test_positive_v_has_mean_one_and_the_long_ones_are_long():
    assert abs(generate("positive-v/short").inputs.v.mean() - 1) < 0.05
    assert {v.problem["keys"] for v in FAMILIES["positive-v"].variants.values()} >= {4096, 65536}


@pytest.mark.parametrize("c", [1, 4, 16])
def test_offsets_are_exact_so_that_logits_shift_by_a_row_constant(c, solve):
    base, moved = generate("offset/kv-0@2").inputs, generate(f"offset/kv-{c}@2").inputs
    assert np.array_equal(moved.k - base.k, np.full_like(base.k, c))
    assert np.array_equal(moved.v - base.v, np.full_like(base.v, c))
    assert np.array_equal(moved.q, base.q)
    assert np.abs(solve("offset/kv-0@2").p - solve(f"offset/kv-{c}@2").p).max() < 1e-12


def test_an_offset_of_64_is_not_exact_in_bf16():
    base, moved = generate("offset/v-0@2").inputs, generate("offset/v-64@2").inputs
    assert (moved.v - base.v != 64).any()
    assert abs(float((moved.v - base.v).mean()) - 64) < 0.1


def test_outliers():
    base, heavy = (
        generate("gaussian/spread-1").inputs,
        generate("outliers/channels-and-rows").inputs,
    )
    channels = np.abs(heavy.v).mean(axis=(0, 1, 2))
    assert channels[::16].min() > 5 * np.delete(channels, np.s_[::16]).max()
    rows = np.abs(heavy.do).mean(axis=-1)
    assert rows.max() / rows.min() > 20 > np.abs(base.do).mean(-1).max() * 4
    apart = generate("outliers/disjoint-channels").inputs
    large = [set(np.flatnonzero(np.abs(x).mean((0, 1, 2)) > 5)) for x in (apart.v, apart.do)]
    assert all(large)
    assert not large[0] & large[1]
    spike = np.abs(generate("outliers/one-element").inputs.v)
    assert (spike > 100).sum() == 1


@pytest.mark.parametrize("name", ["q", "k", "v", "do"])
@pytest.mark.parametrize(("where", "index"), [("first", 0), ("second", 1), ("last", -1)])
def test_one_whole_scale_block_is_zero(name, where, index):
    got = blocks(f"zero-blocks/{name}-{where}", name)
    zero = [not got.values[0, 0, i * n : (i + 1) * n].any() for n in (ROWS_OF_BLOCKS[name],)
            for i in range(got.scales.shape[-2])]  # fmt: skip
    assert zero == [i == index % len(zero) for i in range(len(zero))]
    assert float(got.scales[0, 0, index, 0]) == 1.0


def test_zero_tensors_rows_and_single_elements():
    everything = generate("zero-blocks/everything").inputs
    assert not any(x.any() for _, x in everything.items())
    rows = generate("zero-blocks/rows-k").inputs.k.any(axis=(0, 2, 3))
    assert rows.tolist() == [n % 3 != 0 for n in range(260)]
    assert np.count_nonzero(generate("zero-blocks/single-v").inputs.v) == 1
    assert generate("zero-blocks/v-first").inputs.q.all()


def test_tiny_operands_reach_denormal_scales_and_the_clamp():
    for name in ROWS_OF_BLOCKS:
        scales = blocks(f"tiny-amax/{name}-2^-120", name).scales
        assert ((scales > 0) & (scales < 2.0**-126)).any()
        clamped = blocks(f"tiny-amax/{name}-2^-120", name, "amax-clamped").scales
        assert clamped.min() == np.float32(2.0**-100) / np.float32(448)
        smallest = np.abs(getattr(generate(f"tiny-amax/{name}-2^-133").inputs, name))
        assert smallest[smallest > 0].min() == 2.0**-133


@pytest.mark.parametrize(("gap", "low", "high"), [(80, 2.0**-126, 2.0**-115), (95, 0, 2.0**-126)])
def test_far_keys_have_tiny_probabilities(gap, low, high, solve):
    p = solve(f"tiny-amax/far-keys-{gap}").p[..., 64:, 64:]
    assert low < np.median(p[p > 0]) < high


@pytest.mark.parametrize("variant", list(FAMILIES["distinct-scales"].variants))
@pytest.mark.parametrize("name", list(ROWS_OF_BLOCKS))
def test_every_block_has_a_scale_of_its_own(variant, name):
    for rule in ("amax", "amax-clamped"):
        scales = blocks(f"distinct-scales/{variant}", name, rule).scales
        assert scales.shape[-2] >= 3
        assert np.unique(scales).size == scales.size


RANGE = np.array([float(E4M3.to_fraction(c)) for c in range(E4M3.max_code + 1)])
MIDPOINTS = (RANGE[1:] + RANGE[:-1]) / 2


@pytest.mark.parametrize("rule", list(SCALE_RULES))
@pytest.mark.parametrize("variant", list(POINTS))
def test_rounding_points_meet_the_cast_unscaled(variant, rule):
    inputs = generate(f"rounding/{variant}").inputs
    for name, rows in ROWS_OF_BLOCKS.items():
        x = np.ascontiguousarray(getattr(inputs, name).swapaxes(1, 2))
        if name == "k":
            for mean in ("mean", "blocked-mean"):
                assert np.array_equal(centre(x, mean).view(np.uint32), x.view(np.uint32))
        got = quantise(x, rule, block=rows)
        assert (got.scales == 1).all()
        assert np.array_equal(got.values.view(np.uint32), E4M3.round(x).view(np.uint32))


@pytest.mark.parametrize("variant", OTHERS)
def test_points_of_other_formats_meet_their_cast_at_a_power_of_two(variant):
    tensors, points, pin, exponent = OTHERS[variant]
    fmt = {"e5m2": E5M2, "int8": INT8}.get(variant.partition("-")[0], E4M3)
    inputs, unit = generate(f"rounding/{variant}").inputs, np.float32(2.0**exponent)
    for name in tensors:
        x = getattr(inputs, name)
        got = quantise(np.ascontiguousarray(x.swapaxes(1, 2)), "amax", block=None, element=fmt)
        assert variant == "beyond" or (got.scales == unit).all()
        assert set(np.unique(np.abs(x) / unit)) == {0.0, pin, *BF16.round(np.float32(points()))}
    for name in {"q", "k", "v", "do"} - {*tensors, "k"}:
        assert np.abs(getattr(inputs, name)).max() < 8


def test_every_rounding_variant_is_tested_here_or_with_the_decisions():
    quotients = {"quotient-ties", "quotient-near-ties"}
    assert FAMILIES["rounding"].variants.keys() == POINTS.keys() | quotients | OTHERS.keys()
    for variant in quotients:  # centring changes nothing here either
        k = np.ascontiguousarray(generate(f"rounding/{variant}").inputs.k.swapaxes(1, 2))
        for mean in ("mean", "blocked-mean"):
            assert np.array_equal(centre(k, mean), k)


def test_rounding_points_are_what_they_are_called():
    def seen(variant: str) -> np.ndarray:
        return np.abs(generate(f"rounding/{variant}").inputs.v[..., :-2])

    assert np.isin(seen("ties"), MIDPOINTS).all()
    near = seen("tie-neighbours")
    distance = np.abs(near[..., None] - MIDPOINTS).min(-1) / near
    assert 0 < distance.min()
    assert distance.max() < 2.0**-6
    assert (seen("subnormals") < 2.0**-5).all()
    assert np.unique(seen("all-codes")).size > 120
    zeros = generate("rounding/signed-zeros").inputs.v
    assert (zeros == 0).any()
    assert np.signbit(zeros[zeros == 0]).any()
    pins = generate("rounding/ties").inputs
    assert not (pins.q[..., -2] * pins.k[..., 0, -2][..., None]).any()


@pytest.mark.parametrize("spread", [1, 4])
def test_gaussian_logits_have_their_spread(spread, solve):
    logits = solve(f"gaussian/spread-{spread}").logits
    assert abs(logits[np.isfinite(logits)].std() / spread - 1) < 0.1
