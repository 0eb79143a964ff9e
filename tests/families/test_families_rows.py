"""Row-shape, index, exactness and pair families have the property they claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.families import FAMILIES, generate
from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.indexing import read_tag, targets
from dmverify.conformance.families.relations import AXES, change_from, orders
from dmverify.spec.scaling import SCALE_RULES, Tiling, centre, quantise


@pytest.mark.parametrize("gap", [16, 64, 256])
def test_one_key_stands_out_by_the_gap(gap, solve):
    logits = solve(f"rows/gap-{gap}").logits[..., 100:, :]
    rest = np.where(np.arange(200) > 0, logits, np.nan)
    assert (np.nanargmax(logits, -1) == 0).all()
    assert abs(np.median(logits[..., 0] - np.nanmedian(rest, -1)) - gap) < 0.6


@pytest.mark.parametrize(
    ("variant", "sign"), [("rising", 1), ("rising-slowly", 1), ("falling", -1)]
)
def test_the_maximum_moves_tile_by_tile(variant, sign, solve):
    logits = solve(f"rows/{variant}").logits[..., 192:, :192]
    tops = logits.reshape(*logits.shape[:-1], 3, 64).max(-1)
    moved = (sign * np.diff(tops, axis=-1) > 0).mean()
    assert moved > (0.8 if "slowly" in variant else 0.999)


def test_ties_are_ties_in_every_bit(solve):
    k = generate("rows/ties").inputs.k
    assert (k[:, ::5] == k[:, :1]).all()
    logits = solve("rows/ties").logits[..., 150:, :150]
    top = logits.max(-1, keepdims=True)
    assert ((top - logits) < 1e-9).sum(-1).min() == 30


def test_diagonal_rows_attend_to_their_own_key(solve):
    p = solve("rows/diagonal").p
    assert (p.argmax(-1) == np.arange(200)).all()
    assert p.max(-1).min() > 0.999


@pytest.mark.parametrize("exponent", [1, 3, 5])
def test_logits_have_the_named_size_and_lse_both_signs(exponent, solve):
    got = solve(f"logit-size/logits-1e{exponent}")
    rms = np.sqrt((got.logits[np.isfinite(got.logits)] ** 2).mean())
    assert abs(rms / 10.0**exponent - 1) < 0.2
    assert got.lse.max() > 10.0**exponent
    assert got.lse.min() < 0


def test_scales_that_are_no_ordinary_number():
    assert generate("logit-size/negative-scale").problem.scale < 0
    assert generate("logit-size/zero-scale").problem.scale == 0
    assert 0 < generate("logit-size/tiny-scale").problem.scale < 1e-30


@pytest.mark.parametrize("variant", list(FAMILIES["tagged"].variants))
def test_tags_name_the_key_that_is_read_and_are_exact(variant, solve):
    case = generate(f"tagged/{variant}@4")
    got, problem = solve(f"tagged/{variant}@4"), case.problem
    kind = FAMILIES["tagged"].variants[variant].parameters["target"]
    sought = targets(Draws("tagged", 4), problem, target=kind)
    assert (got.p.argmax(-1) == sought).all()
    assert got.p.max(-1).min() > 1 - 1e-9
    for batch, head, row in [
        (0, 0, 0),
        (problem.batch - 1, problem.heads - 1, problem.queries - 1),
    ]:
        tag = read_tag(got.o[batch, head, row])
        want = {"batch": batch, "head": head // problem.group, "token": int(sought[row])}
        assert tag == want
    for name, block in (("v", 64), ("do", 128)):
        x = np.ascontiguousarray(getattr(case.inputs, name).swapaxes(1, 2))
        for rule in SCALE_RULES:
            assert np.array_equal(quantise(x, rule, block=block).exact(), x)


@pytest.mark.parametrize("rule", list(SCALE_RULES))
@pytest.mark.parametrize("variant", list(FAMILIES["integers"].variants))
def test_integers_are_exact_at_every_step(variant, rule, solve):
    case, got = generate(f"integers/{variant}@1"), solve(f"integers/{variant}@1")
    for name, x in case.inputs.items():
        rows = np.ascontiguousarray(x.swapaxes(1, 2))
        centred = centre(rows, "blocked-mean") if name == "k" else rows
        assert np.array_equal(centred, rows)
        assert np.array_equal(quantise(rows, rule, block=64).exact(), rows)
    assert not got.logits.any()
    assert np.array_equal(got.p, np.full_like(got.p, 1 / case.problem.keys))
    delta = (got.p * got.dp).sum(-1, keepdims=True)
    ds = (got.p * (got.dp - delta)).astype(np.float32)
    assert np.abs(ds).max() > 0
    assert np.array_equal(quantise(ds, rule, block=Tiling(64, 64)).exact(), ds)
    assert not ds.sum(-1).any()


@pytest.mark.parametrize("variant", list(FAMILIES["cancelling-delta"].variants))
def test_delta_cancels(variant, solve):
    case, got = generate(f"cancelling-delta/{variant}"), solve(f"cancelling-delta/{variant}")
    do = case.inputs.do.astype(np.float64).swapaxes(1, 2)
    terms = do * got.o
    complete = np.ones(case.problem.queries, bool)
    if case.problem.causal:
        complete = np.arange(case.problem.queries) % 2 == 1  # the row sees whole pairs
    delta, size = terms.sum(-1)[..., complete], np.abs(terms).sum(-1)[..., complete]
    assert np.abs(delta).max() < 1e-10 * max(1.0, size.max())
    assert np.abs(got.dp).max() > 1
    if "offset" in variant and variant != "offset-0":
        assert size.min() > 50


@pytest.mark.parametrize("moved", ["batch", "heads", "keys", "queries"])
def test_permutations_reorder_the_base(moved, solve):
    base, case = generate("permutation/base@6"), generate(f"permutation/{moved}@6")
    order = orders(Draws("permutation", 6), case.problem, moved=moved)
    for name, x in case.inputs.items():
        source = getattr(base.inputs, name)
        want = np.take(source, order[name], axis=AXES[moved]) if name in order else source
        assert np.array_equal(x, want)
    assert any((o != np.arange(len(o))).any() for o in order.values())
    if moved == "heads":  # outputs move with the query heads, their groups kept together
        o = solve("permutation/base@6").o[:, order["q"]]
        assert np.allclose(o, solve("permutation/heads@6").o, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", ["other", "larger"])
def test_the_future_changes_and_the_past_does_not(variant, solve):
    base, case = generate("future/base@1"), generate(f"future/{variant}@1")
    first = change_from(case.problem)
    assert first % 128 == 0
    assert 0 < first < case.problem.keys
    for name in ("k", "v"):
        ours, theirs = getattr(case.inputs, name), getattr(base.inputs, name)
        assert np.array_equal(ours[:, :first], theirs[:, :first])
        assert (ours[:, first:] != theirs[:, first:]).mean() > 0.9
    same = (
        solve("future/base@1").o[..., :first, :] == solve(f"future/{variant}@1").o[..., :first, :]
    )
    assert same.all()


@pytest.mark.parametrize("variant", list(FAMILIES["duplicates"].variants))
def test_duplicates_repeat(variant):
    k = generate(f"duplicates/{variant}").inputs.k
    n = np.arange(k.shape[1])
    source = {"pairs": n // 2 * 2, "blocks": n % 64}.get(variant, 0 * n)
    assert np.array_equal(k, k[:, source])
    q = generate("duplicates/keys-only").inputs.q
    assert not np.array_equal(q, q[:, np.zeros_like(n)])


STREAMING_MULTIPROCESSORS = 132  # of an H200: as many persistent blocks


def test_long_cases_go_round_where_the_others_end():
    family = FAMILIES["long"]
    problems = {v: replace(family.problem, **family.variants[v].problem) for v in family.variants}
    rounds = [tiles(p.keys) for p in problems.values()]
    assert max(rounds) >= 64
    assert any(r > 16 and r % 2 and r % 3 for r in rounds)  # rings of two and of three stages
    assert any(tiles(p.queries) >= 64 for p in problems.values())
    assert {p.batch for p in problems.values()} >= {3, 5}
    assert {p.head_dim for p in problems.values()} >= {64, 128, 256}
    assert {p.group for p in problems.values()} >= {1, 4, 8}
    assert any(p.batch * p.heads > STREAMING_MULTIPROCESSORS for p in problems.values())
    assert any(p.causal and p.queries - p.keys >= 4 * 64 for p in problems.values())  # dead tiles
    assert {p.causal for p in problems.values() if p.queries == p.keys == 2048} == {True, False}


def tiles(length: int) -> int:
    return -(-length // 64)
