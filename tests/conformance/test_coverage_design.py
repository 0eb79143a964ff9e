"""The program that made the frozen rows: its arithmetic agrees with the count of ids."""

import csv

import numpy as np
import pytest

from dmverify.conformance.coverage.count import cover, rows_of
from dmverify.conformance.coverage.factors import FACTORS, ask, levels_of
from dmverify.conformance.coverage.needs import ALL, NOTHING, shows
from dmverify.conformance.coverage.rows import COLUMNS, frozen_rows
from dmverify.conformance.coverage.space import ordinary, spaces
from dmverify.conformance.coverage.tally import Tally
from dmverify.lab.coverage import freeze
from dmverify.lab.coverage.design import Search
from dmverify.lab.coverage.freeze import KEPT, MODES, frozen
from dmverify.spec.contracts import get_contract


def frozen_questions(level_is_smoke):
    for variant, rows in frozen_rows().items():
        for row in rows:
            if row.smoke == level_is_smoke:
                name = get_contract("bundled", delta=row.delta, ds_cast=row.cast).name
                yield variant, row.case_id(0), name


@pytest.mark.parametrize("strength", [2, 3])
def test_the_tally_of_the_search_is_the_count_of_the_ids(strength):
    some = list(frozen_questions(True))[::7]
    tally = Tally(strength)
    for variant, case_id, contract in some:
        levels = np.array(levels_of(ask(case_id, contract)))
        tally.add(levels, shows(*variant.split("/")))
    counted = cover(rows_of((case_id, contract) for _, case_id, contract in some), strength)
    assert tally.open.sum() == len(list(counted.missing()))
    assert tally.wanted.sum() == counted.total


def test_a_row_taken_out_leaves_what_it_alone_earned():
    tally = Tally(2)
    space = next(space for space in spaces() if space.needs.shows == ALL)
    row = ordinary(space, number=3, tiles=2)
    tally.add(row, ALL)
    alone = tally.only_here(row, ALL)
    assert alone.sum() == len(FACTORS) * (len(FACTORS) - 1) // 2
    assert not tally.only_here(row, NOTHING).any()
    tally.add(row, ALL, -1)
    assert (tally.open == tally.wanted).all()


def test_the_search_meets_what_it_is_asked_for_with_rows_that_fit():
    search = Search(0, lambda _: None)
    wanted = np.zeros_like(search.tally.wanted)
    index, _ = search.tally.places(ordinary(spaces()[0], number=1)[None, :], ALL)
    wanted[index[0, :30]] = True
    search.fill(spaces()[:6], wanted, 1e5)
    assert not (search.tally.open & wanted).any()
    assert all(made.space.fits(made.levels[None, :])[0] for made in search.rows)


def test_frozen_rows_are_written_as_they_are_read():
    search = Search(0, lambda _: None)
    for _ in range(3):
        search.step(spaces()[:6], search.tally.wanted, 1e5)
    lines = frozen(search.rows, spaces()[:6]).splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) > 3


def modes_met():
    """How many modes each variant that keeps its shape is asked in."""
    met = {}
    for row in csv.DictReader(frozen([], []).splitlines()):
        met.setdefault(row["variant"], set()).add((row["delta"], row["cast"]))
    return {variant: len(modes) for variant, modes in met.items()}


def test_a_variant_that_keeps_its_shape_meets_as_many_modes_as_it_has_seeds(monkeypatch):
    due = {variant: modes for variant, (_, _, modes) in KEPT.items()}
    assert max(due.values()) == len(MODES)
    assert modes_met() == due
    monkeypatch.setattr(freeze, "STEP", 2)  # shares a factor with the number of modes
    assert modes_met() != due


def test_rows_are_searched_for_the_variants_that_have_some():
    """Those of some contracts alone have none: what these earn, the others would lack."""
    assert {space.id for space in spaces()} == frozen_rows().keys() - KEPT.keys()
