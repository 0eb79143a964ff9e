"""What the recorded runs of models say, and that the claims can fail."""

import copy
import json

import pytest

from dmverify.studies import ablations, mechanism, separate, train
from dmverify.studies.paper.rows import every_row
from dmverify.studies.recorded import recorded
from dmverify.studies.separate.predictions import fisher
from dmverify.studies.separate.table import TITLES, jobs
from dmverify.studies.train import ARTICLE


def named(rows, key="name"):
    return {row[key]: row for row in rows}


@pytest.mark.parametrize("name", ["train", "separate", "mechanism", "ablations"])
def test_a_record_is_what_its_runs_give(name):
    data = recorded(name)
    again = {
        "train": lambda: train.report(data["runs"]),
        "separate": lambda: separate.result_of(data["runs"]),
        "mechanism": lambda: mechanism.report(data["runs"]),
        "ablations": lambda: ablations.report(data["rows"], data["runs"]),
    }[name]()
    assert json.loads(json.dumps(again.to_json())) == data


WHOLE = (
    "residuals",
    "train",
    "separate",
    "mechanism",
    "real-model",
    "scale",
    "ablations",
    "adversarial",
)


@pytest.mark.parametrize("name", WHOLE)
def test_a_record_names_the_command_that_makes_it(name):
    """Without --quick and --seeds, which a reduced run names (see test_quick)."""
    assert recorded(name)["study"] == name
    assert recorded(name)["command"] == f"dmverify study {name} --out DIR"


@pytest.mark.parametrize("name", ["train", "separate", "mechanism", "ablations"])
def test_runs_say_where_they_come_from(name):
    for run in recorded(name)["runs"]:
        assert len(run["text"]["sha256"]) == 64
        assert run["machine"]["torch"]
        assert run["seeds"]
        assert run["points" if "points" in run else "rows"][0]["step"] == 0


def test_the_articles_tiny_training():
    rows = named(recorded("train")["rows"])
    for name, (_, before, after, _) in ARTICLE.items():
        if before is not None:
            assert 2 / 3 < rows[name]["residual"] / before < 3 / 2
            assert 2 / 3 < rows[name]["residual_cast"] / after < 3 / 2
    assert all(abs(row["gap"]) <= row["gap_half"] for row in rows.values())
    order = [rows[name]["residual_cast"] for name in ("matched", "consistent", "stale")]
    assert order == sorted(order)


def test_the_first_order_statement_holds_for_every_delta():
    for row in recorded("mechanism")["summary"]:
        assert row["agree"] > 0.999
        assert row["slope"] == pytest.approx(1, abs=0.01)
        assert row["sharpened"] < 0 < row["flattened"]


def test_every_run_is_one_of_the_table():
    """Under one key each, so that a second sitting finds what the first one made."""
    keys = [job.key for job in jobs()]
    assert len(set(keys)) == len(keys)
    assert {job.label for job in jobs()} == set(TITLES)
    known = {
        json.dumps({k: v for k, v in job.describe().items() if k != "label"}, sort_keys=True)
        for job in jobs()
    }
    fields = jobs()[0].describe().keys() - {"label"}
    for run in recorded("separate")["runs"]:
        assert json.dumps({k: run[k] for k in fields}, sort_keys=True) in known


def fast(read=recorded):
    """Rows of the setting that loses rows, by name."""
    labels = ("fast-biases", "act")
    return {row["name"]: row for row in read("separate")["rows"] if row["label"] in labels}


STALE, INJECTED = "stale, centre_k=none", "matched, centre_k=none, act=inject"
PROJECTED = "stale, centre_k=none, act=project"


def test_a_stale_delta_drifts_and_loses_rows():
    """At rate 4e-3 with biases, eight seeds; the interval of the ratio leaves 1 out."""
    stale, exact = fast()[STALE], fast()["exact"]
    assert stale["seeds"] == exact["seeds"] == 8
    assert stale["drift"] - stale["drift_half"] > 0
    assert fisher(stale["lost"], 8, exact["lost"], 8) < 0.05
    assert fisher(stale["stayed"], 8, exact["stayed"], 8) < 0.05
    assert exact["sharp"] > exact["stayed"] == 0


def test_the_push_on_k_is_not_what_loses_them():
    """Without it rows are lost, with it alone none is, though K drifts as far."""
    rows = fast()
    assert fisher(rows[PROJECTED]["lost"], 8, rows["exact"]["lost"], 8) < 0.05
    assert rows[PROJECTED]["drift_first"] + rows[PROJECTED]["drift_first_half"] < (
        rows[STALE]["drift_first"] - rows[STALE]["drift_first_half"]
    )
    assert rows[INJECTED]["lost"] == 0
    assert rows[INJECTED]["drift_first"] - rows[INJECTED]["drift_first_half"] > 1
    assert rows[INJECTED]["gap"] + rows[INJECTED]["half"] < 0.05


def test_only_seeds_with_a_sharp_layer_fell_behind_and_only_with_a_stale_delta():
    rows = named(recorded("separate")["behind"], "kind")
    assert sum(row["never_behind"] for row in rows.values()) == 0
    stale, matched = rows["stale"], rows["matched"]
    assert matched["sharp_behind"] == 0 < matched["sharp"]
    assert fisher(stale["sharp_behind"], stale["sharp"], 0, matched["sharp"]) < 0.01


def test_length_on_real_fp8():
    """With values of one sign dQ's error grows with a stale delta, not with a matched one."""
    rows = [r for r in recorded("scale-card")["rows"] if r["values"] == "positive"]
    stale, matched = (
        [r["dq_error"] for r in rows if r["delta"] == delta] for delta in ("stale", "matched")
    )
    assert stale == sorted(stale)
    assert stale[-1] > 4 * stale[0]
    assert max(matched) < 1.1 * min(matched)
    assert all(-2e-3 < r["o_bias"] < 0 for r in rows)


def test_what_stays_of_the_row_sum_after_other_changes():
    rows = {(row["change"], row["spread"]): row for row in recorded("ablations")["rows"]}
    for spread in (1, 2, 4, 8):
        stale, matched = rows["stale", spread], rows["matched", spread]
        for change in ("dP in BF16", "max-shift P", "MX blocks, stale", "one scale a head, stale"):
            assert rows[change, spread]["residual"] > 0.7 * stale["residual"], change
        assert rows["zero-sum dS", spread]["residual_cast"] < matched["residual_cast"] / 4
        assert rows["E5M2 dS", spread]["residual_cast"] > 1.5 * matched["residual_cast"]
        assert rows["dS not cast", spread]["residual_cast"] < 1e-6


READ = ("residuals", "train", "mechanism", "separate")


def test_verdicts_come_from_the_records():
    rows = list(every_row(recorded))
    verdicts = {row.verdict for row in rows}
    assert verdicts == {"reproduced", "contradicted", "out of reach"}
    assert all(row.why for row in rows)
    wrong = {name: copy.deepcopy(recorded(name)) for name in READ}
    named(wrong["train"]["rows"])["stale"]["residual"] *= 2
    wrong["residuals"]["ledger"][0]["closes"] = False
    pushed = next(row for row in wrong["separate"]["rows"] if row["name"] == STALE)
    pushed["drift"] = 0.0
    changed = {
        (a.section, a.figure)
        for a, b in zip(rows, every_row(wrong.__getitem__), strict=True)
        if a.verdict != b.verdict
    }
    assert changed == {
        ("tiny training", "residual, stale"),
        ("eq. 2", "the terms sum to the row sum"),
        ("prototype", "rate 4e-3: under a stale delta the mean of K grows beyond exact's"),
    }


def test_without_a_gpu_the_recorded_runs_are_reported(monkeypatch):
    monkeypatch.setattr("dmverify.studies.training.runs.on_gpu", lambda: False)
    lines = []
    found = separate.STUDY.run(progress=lines.append)
    assert lines == ["no GPU: these are the recorded runs"]
    assert json.loads(json.dumps(found.to_json())) == recorded("separate")
