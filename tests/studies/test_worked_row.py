"""One row, every number: recomputed by hand, and split into terms that sum exactly."""

import json
from fractions import Fraction

import numpy as np
import pytest

from dmverify.errors import InputError
from dmverify.studies import STUDIES, worked_row
from dmverify.studies.worked_row_report import TERM_ORDER

RUN = STUDIES["worked-row"].run


@pytest.fixture(scope="module")
def result():
    return RUN(seeds=(5, 1))


@pytest.fixture(scope="module", params=[0, 1])
def row(request, result):
    return result.to_json()["rows"][request.param]


def closes(mode):
    """Whether the terms sum to the row sum, in rationals that owe nothing to the ledger."""
    total = sum((Fraction(x) for x in mode["dS"]), Fraction(0))
    return total == sum((Fraction(x) for x in mode["exact_terms"].values()), Fraction(0))


def test_terms_sum_exactly(row):
    assert all(closes(mode) for mode in row["modes"].values())


def test_the_sum_can_fail(row):
    mode = row["modes"]["stale"]
    wrong = mode["exact_terms"] | {"grad": str(Fraction(mode["exact_terms"]["grad"]) + 2**-60)}
    assert not closes(mode | {"exact_terms": wrong})


def test_forward_by_hand(row):
    operands, keys, forward = row["operands"], row["keys"], row["forward"]
    s = np.array(operands["k"]) @ np.array(operands["q"]) / 2
    e = np.exp(s - s.max())
    assert keys["S"] == pytest.approx(s, abs=1e-6)
    assert keys["e"] == pytest.approx(e, rel=1e-6)
    assert forward["l"] == pytest.approx(e.sum(), rel=1e-6)
    weights = np.array(keys["code"]) * forward["basis"]
    o = weights @ np.array(operands["v"]) / e.sum()
    assert forward["O before store"] == pytest.approx(o, rel=1e-5, abs=1e-7)
    assert forward["O"] == pytest.approx(o, rel=2.0**-8)
    assert keys["P forward"] == pytest.approx(weights / e.sum(), rel=1e-6)


def test_backward_by_hand(row):
    operands, keys = row["operands"], row["keys"]
    p = np.array(keys["e"]) / row["forward"]["l"]
    dp = np.array(operands["v"]) @ np.array(operands["dO^"])
    o, modes = np.array(row["forward"]["O"]), row["modes"]
    expected = {
        "stale": np.dot(operands["dO"], o),
        "consistent": np.dot(operands["dO^"], o),
        "matched": p @ dp,
        "renormalized": p @ dp / p.sum(),
        "shifted": p @ (dp - dp[np.argmax(keys["S"])]) / p.sum(),
    }
    for name, delta in expected.items():
        assert modes[name]["delta"] == pytest.approx(delta, abs=1e-6), name
        ds = p * (dp - modes[name]["shift"] - delta)
        assert modes[name]["dS"] == pytest.approx(ds, abs=1e-6), name


def test_structure_of_the_article(row):
    """Eq. 2's terms and the store of O make the stale sum; matched leaves fp32 round-off."""
    modes = row["modes"]
    stale, terms = modes["stale"], modes["stale"]["terms"]
    assert terms["prob"] + terms["grad"] + terms["out"] == pytest.approx(stale["row_sum"], abs=1e-6)
    assert "grad" not in modes["consistent"]["terms"]
    assert stale["relative"] > 1e-3
    assert all(modes[m]["relative"] < 1e-6 for m in ("matched", "renormalized", "shifted"))


def test_every_term_is_within_its_bound(row):
    for mode in row["modes"].values():
        assert all(abs(x) <= mode["bounds"][name] for name, x in mode["terms"].items())
        assert set(mode["terms"]) <= set(TERM_ORDER)


def test_idle_channels_are_zero():
    inputs = worked_row.row_inputs(5)
    assert all(not x[..., worked_row.CHANNELS :].any() for _, x in inputs.items())


def test_json_and_tables(result):
    json.dumps(result.to_json(), allow_nan=False)
    for table in result.tables():
        assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,)])
@pytest.mark.parametrize("study", sorted(STUDIES))
def test_wrong_seeds(study, seeds):
    with pytest.raises(InputError, match="seeds"):
        STUDIES[study].run(seeds=seeds)
