"""What separate says of its runs: comparisons, predictions and advice, each of which can fail."""

import math

import pytest

from dmverify.errors import InputError
from dmverify.studies import separate
from dmverify.studies.separate import advice, behind, predictions
from dmverify.studies.separate.beside import beside, lost, sharp, stayed
from dmverify.studies.separate.claims import PREDICTIONS
from dmverify.studies.separate.places import EXACT, FAST, PUSHED
from dmverify.studies.separate.predictions import counted, fisher, verdict
from dmverify.studies.separate.table import jobs
from dmverify.studies.training.statistics import Paired


def record(place, loss, k_mean, residual=1e-2, steps=(0, 200), entropy=2.0):
    """A run of two seeds and one layer with the given figures at its last step."""

    def point(step, size):
        layer = {"k_mean": [x * size for x in k_mean], "residual": [residual, residual]}
        layer["entropy"] = [entropy, entropy]
        return {"step": step, "validation": list(loss), "layers": [layer]}

    points = [point(step, 1.0) for step in steps]
    model = {"setting": {"decay": 0.1}, "steps": steps[-1], "precision": "bf16"}
    model["recipe"] = {"arithmetic": "fp8", "delta": "stale", "act": ""}
    run = {"label": place[0], "name": place[1], "seeds": [0, 1], "points": points, "done": True}
    return run | model


CALM = record(EXACT, [1.0, 1.1], [0.3, 0.4])


def test_a_run_beside_another():
    there = beside(record(PUSHED, [1.2, 1.3], [0.6, 0.8]), CALM)
    assert there.step == 200
    assert there.gap.mean == pytest.approx(0.2)
    assert math.exp(there.drift.mean) == pytest.approx(2)
    assert there.worst == pytest.approx(0.2)


def test_a_seed_that_died_is_compared_while_it_lived():
    died = record(PUSHED, [1.2, 1.3], [0.6, 0.8])
    died["points"][-1] |= {"validation": [None, 1.3]}
    assert beside(died, CALM).step == 0


def test_a_seed_is_lost_to_its_row_sums():
    assert lost(CALM) == 0
    assert lost(record(PUSHED, [1.2, 1.3], [0.6, 0.8], residual=0.9)) == 2


def test_a_layer_that_comes_back():
    run = record(PUSHED, [1.2, 1.3], [0.6, 0.8], steps=(0, 200, 400), entropy=0.01)
    assert (sharp(run), stayed(run)) == (2, 2)
    run["points"][-1]["layers"][0]["entropy"] = [2.0, 0.01]
    assert (sharp(run), stayed(run)) == (2, 1)
    assert (sharp(CALM), stayed(CALM)) == (0, 0)


@pytest.mark.parametrize(
    ("mean", "half", "more", "expected"),
    [
        (0.2, 0.1, True, "holds"),
        (0.0, 0.01, True, "refuted"),
        (0.1, 0.2, True, "open"),
        (0.0, 0.01, False, "holds"),
        (0.2, 0.1, False, "refuted"),
        (0.1, 0.2, False, "open"),
        (0.2, None, True, "open"),
    ],
)
def test_verdicts(mean, half, more, expected):
    assert verdict(Paired(mean, half, 8), "gap", more) == expected


def test_the_same_runs_with_their_names_changed_get_the_other_verdict():
    pushed = record(PUSHED, [1.2, 1.3], [0.6, 0.8])
    first = [row["verdict"] for row in predictions.judged([CALM, pushed])]
    calm = record(EXACT, [1.2, 1.3], [0.6, 0.8])
    second = [row["verdict"] for row in predictions.judged([calm, record(PUSHED, *QUIET)])]
    assert first == ["holds", "holds", "refuted", "refuted"]
    assert second == ["refuted", "refuted", "refuted", "refuted"]


def test_lost_seeds_by_hand():
    """8 of 16 drawn for one side: 6 lost against 0 is C(8, 6) / C(16, 6)."""
    assert fisher(6, 8, 0, 8) == pytest.approx(28 / 8008)
    assert fisher(0, 8, 0, 8) == 1
    assert [counted(6, 0, 0.0035, more) for more in (True, False)] == ["holds", "refuted"]
    assert [counted(0, 0, 1.0, more) for more in (True, False)] == ["refuted", "holds"]
    assert counted(2, 0, 0.23, more=True) == "open"


QUIET = ([1.0, 1.1], [0.3, 0.4])


def test_advice_follows_the_runs():
    words = {"loss": [1.0, 1.1], "k_mean": [0.3, 0.4]}
    (row,) = advice.rows([CALM, record(PUSHED, **words)])
    assert row["suffices"] == "yes"
    (row,) = advice.rows([CALM, record(PUSHED, **words, residual=0.9)])
    assert row["suffices"] == "no"
    (row,) = advice.rows([CALM, record(PUSHED, [1.0, 1.4], [0.3, 0.4])])
    assert row["suffices"] == "open"


def test_what_was_cut_is_open():
    pushed = record(PUSHED, [1.2, 1.3], [0.6, 0.8]) | {"done": False}
    assert {row["verdict"] for row in predictions.judged([CALM, pushed])} == {"open"}
    same = record(PUSHED, [1.0, 1.1], [0.3, 0.4])
    said = [advice.rows([CALM, same | {"done": done}])[0]["suffices"] for done in (True, False)]
    assert said == ["yes", "open"]


def test_lost_seeds_count_beside_those_of_exact_attention():
    near, far = Paired(0.0, 0.01, 8), Paired(0.2, 0.01, 8)
    assert [advice.suffices(near, gone, 0) for gone in (None, 0, 1)] == ["yes", "yes", "no"]
    assert [advice.suffices(near, gone, 3) for gone in (3, 4, 8)] == ["yes", "open", "no"]
    assert advice.suffices(far, 4, 3) == "no"


def test_who_fell_behind():
    base = CALM | {"recipe": {"arithmetic": "exact", "delta": "matched", "act": ""}}
    pushed = record(PUSHED, [1.05, 1.3], [0.6, 0.8])
    pushed["points"][-1]["layers"][0]["entropy"] = [2.0, 0.01]
    (row,) = behind.rows([base, pushed])
    assert row == {"kind": "stale", "never": 1, "never_behind": 0, "sharp": 1, "sharp_behind": 1}
    pushed["points"][-1]["layers"][0]["entropy"] = [2.0, 2.0]
    (row,) = behind.rows([base, pushed])
    assert (row["never_behind"], row["sharp"]) == (1, 0)
    assert behind.rows([base, pushed | {"done": False}]) == []


def test_every_prediction_and_remedy_names_a_run_of_the_table():
    known = {(job.label, job.recipe.name) for job in jobs()}
    named = {place for one in PREDICTIONS for place in (one.run, one.than)}
    named |= {place for _, _, places in advice.REMEDIES for place in places}
    assert named <= known
    assert (FAST, "no such") not in known


def test_a_sitting_takes_time():
    with pytest.raises(InputError, match="minutes"):
        separate.STUDY.run(quick=True, minutes=0)
