"""The page, the records and the study of the bounds."""

import json
from fractions import Fraction

from dmverify.studies import STUDIES
from dmverify.studies.bounds import mathematics, records, refuter
from dmverify.studies.bounds.sharpness import ratios


def test_the_page_says_what_the_table_says():
    assert mathematics.PAGE.read_text() == mathematics.page()


def test_numbers_are_shown_exactly_where_they_are_dyadic():
    shown = mathematics.shown
    assert shown(Fraction(1, 17)) == "1/17"
    assert shown(Fraction(1, 2**24)) == "2^-24"
    assert shown(7 * Fraction(1, 2**144)) == "7 * 2^-144"
    assert shown(448 + Fraction(1, 2**15)) == "448 + 2^-15"
    assert shown(Fraction(1459, 10**10)) == "1.459e-07"


def test_ratios_of_bound_and_error():
    import numpy as np

    bound, error = np.array([4.0, 1.0, 9.0]), np.array([2.0, 0.5, np.nan])
    assert ratios(bound, error) == (2.0, 2.0)
    assert ratios(bound, np.zeros(3)) is None


def test_the_quick_study_meets_the_targets_it_can_see(tmp_path):
    result = STUDIES["bounds"].run(quick=True, out=tmp_path)
    assert all(one["share"] > 0.5 for one in result.data["attained"])
    for point in result.data["sweeps"]:
        assert point["observed"] <= point["enclosure"] * (1 + 1e-5)
        assert point["observed"] <= point["closed"]
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".svg", ".html"}


def test_the_records_are_of_every_family_and_bound():
    sweep, search = (json.loads(p.read_text()) for p in (records.SOUNDNESS, records.REFUTER))
    assert sweep["violations"] == []
    assert all(row["violations"] == 0 for row in search["bounds"].values())
    assert {name.split(":")[0] for name in search["bounds"]} == set(refuter.TARGETS)
