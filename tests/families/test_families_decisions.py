"""Families that put numbers on decision points: ties, quotients, exponentials, maxima."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dmverify.conformance.families import FAMILIES, generate
from dmverify.conformance.families.deciding import deciding_rows
from dmverify.conformance.families.rounding import TOPS
from dmverify.lab.mutants import MUTANTS
from dmverify.lab.mutants.emulator import Mutation, run_mutated
from dmverify.lab.mutants.emulator.maxima import MAXIMA
from dmverify.lab.mutants.emulator.operands import MUTATIONS as DIVISIONS
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import DELTAS, get_contract


def contract_of(delta: str, cast: str = "nearest") -> str:
    return get_contract("bundled", delta=delta, ds_cast=cast).name


def halfway(x):
    """Whether a normal code's significand is odd in its fifth bit, and the parity of the fourth."""
    fifth = np.frexp(np.abs(x))[0] * 32
    tie = (fifth == np.floor(fifth)) & (fifth % 2 == 1)
    return tie, np.floor(fifth / 2) % 2 == 0


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("variant", ["ds", "ds-offset"])
def test_most_of_ds_lies_halfway_between_codes_in_every_mode(variant, delta):
    case = generate(f"cast-ties/{variant}@1", contract=contract_of(delta))
    ds = run_mutated(Mutation(), case).internals.ds
    tie, even_below = halfway(ds)
    for sign in (ds > 0, ds < 0):
        for parity in (even_below, ~even_below):
            assert (tie & sign & parity).mean() > 0.15


def test_ties_meet_the_casts_of_p():
    """Nine rows were found for the backward's P, and sixteen of each kind for the forward's."""
    case = generate("cast-ties/p@1", contract="bundled")
    p = run_mutated(Mutation(), case).internals.p
    assert halfway(p)[0].any(-1).sum() >= 9


@pytest.mark.parametrize("kind", ["ties", "near-ties"])
def test_quotients_are_on_or_beside_a_midpoint(kind):
    case = generate(f"rounding/quotient-{kind}@1")
    v = np.abs(case.inputs.v[0, :64, 0].astype(np.float64))
    top = v.max()
    assert top in TOPS[kind]
    near = []
    for x in np.unique(v[v > 0])[:-1]:
        quotient = Fraction(448) * Fraction(float(x)) / Fraction(float(top))
        while quotient >= 32:
            quotient /= 2
        while quotient < 16:
            quotient *= 2
        middle = 2 * (quotient // 2) + 1
        near.append(abs(quotient - middle) / middle)
    if kind == "ties":
        assert set(near) == {0}
    else:
        assert 0 < min(near) < Fraction(1, 2**12)
        assert max(near) < Fraction(1, 2**9)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", DIVISIONS)
def test_every_seed_tells_quotients_apart(name, seed):
    case = generate(MUTANTS[name].cases[0].replace("@0", f"@{seed}"), contract="bundled")
    assert differs(run_mutated(DIVISIONS[name], case), run_mutated(Mutation(), case))


@pytest.mark.parametrize("variant", list(FAMILIES["exponentials"].variants))
def test_logits_are_one_product_and_arguments_lie_dense(variant, solve):
    case, got = generate(f"exponentials/{variant}@1"), solve(f"exponentials/{variant}@1")
    q, k = case.inputs.q, case.inputs.k
    products = q[0, :, None] * k[0, None]  # (Nq, Nk, H, D)
    assert ((products != 0).sum(-1) == 1).all()
    x = np.ptp(got.logits, axis=-1).reshape(-1)
    assert x.min() < 2**-7 < 90 < x.max()
    fractions = np.sort(x[x > 1] * np.log2(np.e) % 1)
    assert np.diff(np.concatenate([fractions, fractions[:1] + 1])).max() < 0.1
    delta = (got.p * got.dp).sum(-1)
    assert (np.count_nonzero(got.dp, axis=-1) == 1).all()
    assert (delta > 0).all()


ALL_ROWS, ALL_KEYS = 128, 64
SPIKES = {"amax-q-row": ALL_ROWS, "amax-do-row": ALL_ROWS} | {
    name: ALL_KEYS
    for name in MAXIMA
    if name not in ("amax-q-row", "amax-do-row", "level-row", "p-maximum-row", "do-norm-row")
}


@pytest.fixture(scope="module")
def heads():
    """Each head of the spikes as a case of its own, with its outputs."""
    case = generate("deciding/spikes@0", contract="bundled")
    single = [one_head(case, head) for head in range(case.problem.heads)]
    return [(one, run_mutated(Mutation(), one)) for one in single]


@pytest.mark.parametrize("name", list(SPIKES))
def test_every_row_key_and_channel_decides(name, heads):
    count, group = SPIKES[name], ALL_ROWS // SPIKES[name]
    for at in range(count):
        case, due = heads[at * group]
        position = count - 1 - at
        if name.endswith("channel"):
            position = int(
                np.abs(getattr(case.inputs, name.split("-")[1])[0, :, 0]).max(0).argmax()
            )
        assert differs(run_mutated(MAXIMA[name](position), case), due), position


@pytest.mark.parametrize("name", ["p-maximum-row", "do-norm-row"])
def test_every_row_of_a_tile_decides(name, heads):
    for head in range(ALL_ROWS - ALL_KEYS):
        case, due = heads[head]
        position = ALL_KEYS - 1 - head
        assert differs(run_mutated(MAXIMA[name](position), case), due), position


@pytest.mark.parametrize(
    ("variant", "delta"),
    [("shift-level", "matched"), ("shift-level", "shifted"), ("delta-level", "shifted")],
)
def test_every_row_of_a_tile_carries_the_level(variant, delta):
    case = generate(f"deciding/{variant}@0", contract=contract_of(delta))
    left = set()
    for row, head in deciding_rows(case.problem):
        one = one_head(case, head)
        left.add(row % ALL_KEYS)
        changed = run_mutated(MAXIMA["level-row"](row % ALL_KEYS), one)
        assert differs(changed, run_mutated(Mutation(), one)), row
    assert left == set(range(ALL_KEYS))


def one_head(case, head):
    problem, key_head = case.problem, head // case.problem.group
    at = {"q": head, "do": head, "k": key_head, "v": key_head}
    inputs = {name: x[:, :, at[name] : at[name] + 1] for name, x in case.inputs.items()}
    alone = replace(problem, heads=1, kv_heads=1)
    return replace(case, id=f"{case.id} {head}", problem=alone, inputs=Inputs(**inputs))


def differs(run, due) -> bool:
    return any(
        not np.array_equal(x, getattr(due.outputs, name), equal_nan=True)
        for name, x in run.outputs.items()
    )
