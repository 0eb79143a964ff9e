"""Conforming kernels stay inside the enclosures; kernels that take a liberty do not."""

import json

import numpy as np
import pytest

from dmverify.conformance.checks.margins import compare
from dmverify.conformance.families import generate
from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import DELTAS, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.studies.bounds import records, refuter, soundness
from dmverify.studies.bounds.kernels import ShuffledBits
from tests.commands import lab, merging

SMALL = "gaussian/spread-2,heads=1,queries=40,keys=70,head_dim=32@3"


def outside(outputs, bands):
    return {n for n, x in outputs.items() if (compare(x, bands[n]).margin > 1).any()}


@pytest.mark.parametrize("family", soundness.swept_families())
def test_a_sample_of_every_family(family):
    tally = soundness.Tally()
    for mode in DELTAS[len(family) % 2 :: 2]:
        for number, (case, contract, order) in enumerate(soundness.plan(family, mode, 1, seed=77)):
            soundness.check(case, contract, order, number, tally)
    assert tally.violations == []
    assert tally.elements > 0


@pytest.mark.parametrize(
    ("path", "cases", "least"),
    [(records.SOUNDNESS, 10_000, 100), (records.SOUNDNESS_AGAIN, 3_000, 20)],
)
def test_the_recorded_sweeps_are_clean_and_large(path, cases, least):
    record = json.loads(path.read_text())
    assert record["violations"] == []
    assert record["cases"] >= cases
    assert record["least_per_family_and_mode"] >= least


def test_the_second_sweep_is_of_all_families():
    record = json.loads(records.SOUNDNESS_AGAIN.read_text())
    assert record["families"].split(",") == list(soundness.swept_families())
    assert len(record["per_family_and_mode"]) == len(soundness.swept_families()) * len(DELTAS)


def test_the_recorded_search_found_nothing():
    record = json.loads(records.REFUTER.read_text())
    assert record["bounds"]
    assert all(row["violations"] == 0 for row in record["bounds"].values())


def test_another_order_of_channels_is_only_allowed_where_no_order_is_known():
    contract = get_contract("bundled")
    case = generate(SMALL.replace("dim=32", "dim=64"), contract="bundled")  # two instructions
    kernel = ShuffledBits(5, channels=True)
    found = interpret(contract, case.problem, case.inputs, kernel).outputs
    fixed = enclosure(contract, case.problem, case.inputs)
    free = enclosure(contract, case.problem, case.inputs, order="free")
    assert "lse" in outside(found, fixed)
    assert outside(found, free) == set()


@pytest.mark.parametrize("base", ["article", "bundled"])
@pytest.mark.parametrize("order", ["channels", "free"])
def test_a_kernel_of_another_mode_is_outside(base, order):
    """Stale where matched is promised; offsets make it visible."""
    case = generate("offset/kv-16,heads=1,queries=40,keys=70,head_dim=32@3", contract=base)
    wrong = get_contract(base, delta="stale")
    arithmetic = Bits() if base == "bundled" else Single()
    with np.errstate(all="ignore"):
        found = interpret(wrong, case.problem, case.inputs, arithmetic).outputs
    bands = enclosure(get_contract(base), case.problem, case.inputs, order=order)
    assert "delta" in outside(found, bands)


def test_the_fixed_form_is_inside_the_free_form():
    case = generate(SMALL, contract="bundled")
    fixed, free = (
        enclosure(get_contract("bundled"), case.problem, case.inputs, order=order)
        for order in ("channels", "free")
    )
    for name, band in fixed.items():
        assert (band.lo >= free[name].lo).all()
        assert (band.hi <= free[name].hi).all()
        assert (band.hi - band.lo).sum() < (free[name].hi - free[name].lo).sum()


def test_small_calls_enumerated():
    """Some of the 243 small calls of each mode; the record holds all of them."""
    tally = soundness.Tally()
    for mode in DELTAS:
        planned = list(soundness.plan(soundness.ENUMERATED, mode, 243))
        assert len(planned) == 243
        for number, (case, contract, order) in list(enumerate(planned))[::31]:
            soundness.check(case, contract, order, number, tally)
    assert tally.violations == []
    record = json.loads(records.SMALL.read_text())
    assert record["cases"] == 6 * 243
    assert record["violations"] == []


def test_the_refuter_breaks_a_bound_that_is_too_small():
    """The search finds what it should where there is something to find."""

    class Wrong:
        def start(self, random):
            return refuter.TensorCore().start(random)

        def judge(self, genome, random):
            return {n: m * 4 for n, m in refuter.TensorCore().judge(genome, random).items()}

    scores = {}
    random = np.random.default_rng(1)
    refuter.climb(Wrong(), scores, "wrong", evaluations=400, random=random)
    assert scores["wrong: any order"].evaluations == 400
    assert scores["wrong: any order"].violations > 0
    assert scores["wrong: any order"].witness


def test_shards_are_the_plan_in_parts():
    whole = [c.id for c, _, _ in soundness.plan("rows", "matched", 7, seed=3)]
    parts = [
        [c.id for c, _, _ in soundness.plan("rows", "matched", 7, seed=3, shard=(i, 3))]
        for i in range(3)
    ]
    assert sorted(text for part in parts for text in part) == sorted(whole)
    assert parts[1] == whole[1::3]


def test_merged_shards_are_the_whole_run_and_a_missing_one_is_refused(tmp_path):
    plan = ["--families", "one-channel", "--per", "4", "--seed", "2"]
    paths = [tmp_path / f"{i}.json" for i in range(2)]
    for i, path in enumerate(paths):
        assert lab("soundness", *plan, "--shard", f"{i}/2", "--out", path).exit_code == 0
    joined, whole = tmp_path / "joined.json", tmp_path / "whole.json"
    assert lab("soundness", *merging(paths), "--out", joined).exit_code == 0
    assert lab("soundness", *plan, "--out", whole).exit_code == 0
    records = [json.loads(p.read_text()) | {"cpu_seconds": 0} for p in (joined, whole)]
    assert records[0] == records[1]
    for wrong in ([paths[0]], [paths[0], paths[0]]):
        said = lab("soundness", *merging(wrong), "--out", joined)
        assert said.exit_code == 2
        assert "every shard of one plan, each once" in said.stderr


def test_a_search_adds_what_its_parts_found():
    part = refuter.Search({"a": refuter.Score(2, 0.5, 0)}, 3.0)
    other = refuter.Search({"a": refuter.Score(1, 1.5, 1, "w"), "b": refuter.Score(4)}, 4.0)
    part.add(other)
    record = part.to_json()
    assert record["cpu_seconds"] == 7
    row = {"evaluations": 3, "best_margin": 1.5, "violations": 1, "witness": "w"}
    assert record["bounds"]["a"] == row
    assert record["bounds"]["b"]["evaluations"] == 4
