"""The table of what every check notices: whole, still true, and able to fail."""

import json
import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli.main import cli
from dmverify.conformance import evidence, references
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.families import FAMILIES, parse_case_id
from dmverify.errors import HarnessError
from dmverify.lab.power import DEVIATIONS, lost, measure, missing, read_table, record
from dmverify.lab.power import cases as power_cases
from dmverify.lab.power.measure import LEAST, UNKNOWN, Subjects
from dmverify.lab.power.page import page
from dmverify.lab.power.record import ANY, cases_in, columns
from dmverify.lab.power.subject import JUDGES, of_answer

RUN = int(os.environ.get("RUN", "0"))  # chooses a third of the families; any third passes
PAGE = Path(__file__).parents[3] / "docs" / "power.md"


def cells():
    """Every pair: family, id of the error, judge, cell."""
    for family, rows in read_table()["cells"].items():
        for name, row in rows.items():
            for judge, cell in row.items():
                yield family, name, judge, cell


def only(family, *names):
    """A table of some errors in one family."""
    table = deepcopy(read_table())
    table["cells"] = {family: {name: table["cells"][family][name] for name in names}}
    return table


@pytest.mark.parametrize("family", columns()[RUN % 3 :: 3])
def test_what_is_listed_as_rejected_is_rejected(family):
    assert lost(read_table(), family) == []


def test_every_check_family_and_size_has_a_row():
    assert {one.check for one in DEVIATIONS.values()} == CHECKS.keys()
    assert missing(read_table()) == []


def test_a_new_check_or_family_lacks_its_row(monkeypatch):
    new = replace(DEVIATIONS["o element"], id="o corner", stated=0.5)
    monkeypatch.setitem(record.DEVIATIONS, new.id, new)
    said = missing(read_table())
    assert "the stated size of o corner" in said
    assert "o corner in gaussian" in said
    table = deepcopy(read_table())
    del table["cells"]["rows"], table["cases"]["offset"]
    said = missing(table)
    assert "lse row in rows" in said
    assert "the cases of offset" in said


def test_every_family_is_a_column():
    assert set(columns()) == {*FAMILIES, "capture", ANY}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_that_nobody_named_takes_its_first_variants(family, monkeypatch):
    monkeypatch.setattr(power_cases, "VARIANTS", {})
    found = power_cases.cases_of(family)
    assert len(found) == len(power_cases.OWN_SHAPES.get(family, power_cases.SHAPES))
    variants = [parse_case_id(case).variant for case in found]
    assert all(name in FAMILIES[family].variants for name in variants)
    assert variants[0] == next(iter(FAMILIES[family].variants))


def test_nothing_is_blind_without_a_reason():
    assert [cell[:3] for cell in cells() if cell[3] in ("", UNKNOWN)] == []


def test_the_cast_of_every_family_is_held_to_its_own_size():
    """A cast dS that is off by 2 abs(dS) is rejected wherever a dS is not 0, on every case."""
    for family, name, judge, cell in cells():
        if name == "ledger cast":
            assert cell[0] <= 0, (family, judge)
            assert cell[2] == cell[3] > 0, (family, judge)


def test_the_page_shows_the_table():
    assert PAGE.read_text() == page(read_table())


def loosened(bands, factor):
    """Bands that are wider around their middle, and by an ulp or two where they are a point."""

    def ends(band):
        wide = factor * np.maximum(band.hi - band.lo, np.abs(band.mid) * 2.0**-8)
        sides = {"lo": band.mid - wide, "hi": band.mid + wide, "above": wide, "below": wide}
        return replace(band, **{name: np.asarray(array) for name, array in sides.items()})

    return {name: ends(band) for name, band in bands.items()}


def test_looser_intervals_are_noticed(monkeypatch):
    names = ("o element", "dq factor", "lse row", "heads")
    table = only("gaussian", *names)
    assert lost(table, "gaussian") == []
    tight = references.enclosure
    monkeypatch.setattr(references, "enclosure", lambda *args: loosened(tight(*args), 32))
    said = lost(table, "gaussian")
    assert {text.split(":")[0] for text in said} == set(names)


def test_looser_terms_are_noticed(monkeypatch):
    names = ("row-sum", "ledger match", "ledger elem", "ledger cast", "ledger dot")
    table = only("gaussian", *names)
    assert lost(table, "gaussian") == []
    tight = evidence.ledger

    def loose(*args, **named):
        book = tight(*args, **named)
        return replace(book, bounds={name: 2.0**12 * x for name, x in book.bounds.items()})

    monkeypatch.setattr(evidence, "ledger", loose)
    said = lost(table, "gaussian")
    assert {text.split(":")[0] for text in said} == set(names)


def test_a_check_that_accepts_everything_is_noticed(monkeypatch):
    names = ("dead-rows", "format", "nan planted", "bits", "inputs-kept", "batch")
    table = only("gaussian", *names)
    for name in {DEVIATIONS[name].check for name in names}:
        accepts = CHECKS["repeat"].judge  # of an answer that agrees with itself
        monkeypatch.setitem(CHECKS, name, replace(CHECKS[name], judge=accepts))
    assert {text.split(":")[0] for text in lost(table, "gaussian")} == set(names)


def test_the_size_is_the_smallest_by_doubling():
    known = Subjects(cases_in("gaussian"))
    for name in ("lse row", "ledger match", "o factor"):
        for judge in JUDGES:
            one = DEVIATIONS[name]
            cell = measure.measure(one, judge, known)
            subject = known.get(cell.case, one.contract(judge))
            assert LEAST < cell.doublings <= 0
            assert measure.rejects(one, subject, cell.doublings)
            assert not measure.rejects(one, subject, cell.doublings - 1)
            assert 0 < cell.seen <= cell.tried == len(known.cases)


def test_sizes_above_the_stated_one_are_found():
    tiny = replace(DEVIATIONS["lse row"], stated=2.0**-30)
    cell = measure.measure(tiny, "article", Subjects(cases_in("gaussian")[:1]))
    assert cell.doublings > 0
    assert (cell.seen, cell.tried) == (0, 1)


def test_a_check_that_rejects_the_right_answer_is_an_error(monkeypatch):
    tight = references.enclosure
    monkeypatch.setattr(references, "enclosure", lambda *args: loosened(tight(*args), -1))
    with pytest.raises(HarnessError, match="a right answer conforms"):
        measure.measure(DEVIATIONS["o factor"], "bundled", Subjects(cases_in("gaussian")[:1]))


def test_size_0_is_no_error():
    """Of every error: what is planted and asked is what is right."""
    known = Subjects(cases_in("gaussian"))
    for one in DEVIATIONS.values():
        subject = known.get(0, one.contract("bundled"))
        try:
            found = one.plant(subject, 0.0)
        except measure.NothingToPlantError:
            continue
        right = of_answer(subject, subject.outputs)
        for name, array in right.outputs.items():
            assert np.array_equal(getattr(found.outputs, name), array, equal_nan=True), one.id
        for name, array in vars(right.internals).items():
            assert np.array_equal(getattr(found.internals, name), array), (one.id, name)


def test_the_command_says_what_holds(monkeypatch):
    call = CliRunner().invoke
    result = call(cli, ["faults", "--power", "any", "--json"])
    assert result.exit_code == 0
    shape = json.loads(result.stdout)
    assert shape["ok"]
    assert shape["differs"] == []
    assert sum(shape["pairs"].values()) == sum(1 for _ in cells())
    page_of = call(cli, ["faults", "--power", "--markdown"])
    assert page_of.stdout.strip() == page(read_table()).strip()
    unknown = call(cli, ["faults", "--power", "no-such-family"])
    assert unknown.exit_code == 2
    monkeypatch.setattr("dmverify.cli.faults_power.lost", lambda _, family: [f"{family}: gone"])
    failed = call(cli, ["faults", "--power", "any"])
    assert failed.exit_code == 1
    assert "any: gone" in failed.stdout
