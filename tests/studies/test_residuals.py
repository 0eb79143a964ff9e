"""The residual study: the recorded run beside the article, a live run beside the recorded one."""

import copy
import json

import pytest

from dmverify.conformance.captures import list_captures
from dmverify.studies import STUDIES
from dmverify.studies.recorded import recorded
from dmverify.studies.residuals.published import PUBLISHED, RATIOS, compare

ROW_KEYS = {
    "inputs", "spread", "delta", "residual", "residual_cast", "colsum", "o_error", "dq_error",
    "article",
}  # fmt: skip
MODES = {"stale", "consistent", "matched", "renormalized", "shifted", "associated"}
ROUND_OFF = {"matched", "renormalized", "shifted", "associated"}

# The article says "1.7 to 2.5 over the spreads". At spread 4 six seeds give 2.67 here and 36 seeds
# (--seeds 0,1,...,35) 2.64, so this is no accident of the seeds; nothing else is missed.
KNOWN_DEVIATIONS = {"residual_cast, stale / matched, gaussian, spread 4"}


@pytest.fixture(scope="module")
def full():
    return recorded("residuals")


@pytest.fixture(scope="module")
def live():
    return STUDIES["residuals"].run(quick=True)


def by_key(rows):
    return {(row["inputs"], row["spread"], row["delta"]): row for row in rows}


def outside(rows):
    return {c.figure for c in compare(by_key(rows)) if not c.within}


def test_the_articles_table(full):
    assert full["seeds"] == [0, 1, 2, 3, 4, 5]
    assert len(full["published"]) == len(PUBLISHED) + len(RATIOS)
    assert outside(full["rows"]) == KNOWN_DEVIATIONS
    ratio = {c["figure"]: c["ratio"] for c in full["published"]}
    assert all(1 < ratio[figure] < 1.1 for figure in KNOWN_DEVIATIONS)


def test_the_comparison_can_fail(full):
    rows = copy.deepcopy(full["rows"])
    by_key(rows)["gaussian", 2.0, "stale"]["residual"] *= 1.06
    by_key(rows)["outlier", 1.0, "stale"]["residual"] *= 0.85
    new = outside(rows) - KNOWN_DEVIATIONS
    assert new == {
        "residual, stale, gaussian, spread 2",
        "residual, stale, outlier, spread 1",
    }


def test_json_shape(full, live):
    for data in (full, live.to_json()):
        json.dumps(data, allow_nan=False)
        keys = [(row["inputs"], row["spread"], row["delta"]) for row in data["rows"]]
        assert len(set(keys)) == len(keys)
        assert {key[2] for key in keys} == MODES
        assert {key[0] for key in keys} == {"gaussian", "outlier"}
        assert all(row.keys() >= ROW_KEYS for row in data["rows"])
    assert {row["spread"] for row in full["rows"]} == {1, 2, 4, 8, 16, 64}
    row = by_key(full["rows"])["gaussian", 1.0, "stale"]
    assert row["article"] == 3.1e-3
    assert by_key(full["rows"])["gaussian", 8.0, "stale"]["article"] is None


def agree(live_row, full_row):
    """One seed of a live run against the same seed of the recorded one, every measure.

    Another processor may sum in another order and round some codes the other way: 1 %, and 25 %
    where all there is is round-off.
    """
    round_off = live_row["delta"] in ROUND_OFF
    for name in ("residual", "residual_cast", "colsum", "o_error", "dq_error"):
        tolerance = 0.25 if round_off and name in ("residual", "colsum") else 0.01
        recorded_value = full_row["by_seed"][name][0]
        if live_row[name] != pytest.approx(recorded_value, rel=tolerance, abs=1e-12):
            return False
    return True


@pytest.mark.parametrize("part", ["rows", "variants"])
def test_live_run_repeats_the_recorded_one(part, live, full):
    def keyed(rows):
        return {(r["inputs"], r["spread"], r["contract"]): r for r in rows if r["spread"] < 64}

    there = keyed(full[part])
    here = keyed(live.to_json()[part])
    assert len(here) >= 2
    assert [key for key, row in here.items() if not agree(row, there[key])] == []


def test_the_repetition_can_fail(live, full):
    row = copy.deepcopy(by_key(live.to_json()["rows"])["gaussian", 1.0, "stale"])
    there = by_key(full["rows"])["gaussian", 1.0, "stale"]
    assert agree(row, there)
    row["dq_error"] *= 1.02
    assert not agree(row, there)


def test_matched_leaves_round_off_where_shifted_does_not(full):
    rows = by_key(full["rows"])
    for inputs in ("gaussian", "outlier"):
        matched = [rows[inputs, s, "matched"] for s in (1, 4, 16, 64)]
        assert [row["residual"] for row in matched] == sorted(row["residual"] for row in matched)
        assert matched[-1]["residual"] > 1e-2 > 1e-5 > matched[2]["residual"] > 1e-7
        assert rows[inputs, 64, "renormalized"]["residual"] > 1e-2
        assert all(rows[inputs, s, "shifted"]["residual_max"] < 2e-6 for s in (1, 2, 4, 8, 16, 64))


def test_every_term_closes_and_is_within_its_bound(full, live):
    for data in (full, live.to_json()):
        assert all(row["closes"] for row in data["ledger"])
        assert all(max(row["margins"].values()) <= 1 for row in data["ledger"])
        for row in data["ledger"]:
            assert row["residual"] <= row["bound"]


def test_casts_and_captures(full):
    variants = {(r["spread"], r["contract"]): r for r in full["variants"]}
    main = by_key(full["rows"])
    for spread in (1, 2, 4, 8):
        zero_sum = variants[spread, "article:ds_cast=zero-sum"]["residual_cast"]
        assert zero_sum < main["gaussian", spread, "matched"]["residual_cast"] / 4
    captures = {(r["inputs"], r["contract"]): r for r in full["captures"]}
    names = {name for name, _ in captures}
    assert names == set(list_captures())
    for name in names:
        stale = captures[name, "article:delta=stale"]
        matched = captures[name, "article"]
        assert stale["residual"] > 1e4 * matched["residual"]
        assert stale["residual_cast"] > matched["residual_cast"]


def test_undefined_rows_are_counted(full):
    """Denormal scales overflow to NaN in the contracts that neither clamp nor saturate."""
    rows = by_key(full["rows"])
    assert rows["gaussian", 64, "matched"]["undefined"] > 0.01
    assert rows["gaussian", 16, "matched"]["undefined"] == 0
    bundled = [r for r in full["variants"] if r["base"] == "bundled"]
    assert bundled
    assert all(r["undefined"] == 0 for r in bundled)


def test_tables_and_pictures(live):
    for table in live.tables():
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert [plot.name for plot in live.plots] == ["modes", "sharp", "casts", "columns", "captures"]
