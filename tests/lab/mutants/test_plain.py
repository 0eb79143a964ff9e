"""Every mutant that N(0, 1) misses is found by a family, and the table says so of each."""

import pytest

from dmverify.lab.mutants import plain
from dmverify.lab.mutants.catalogue import MUTANTS
from dmverify.lab.mutants.plain import BACK_ENDS, plain_case, read_table

ROWS = read_table()


def test_the_table_has_every_mutant_of_both_back_ends():
    due = {(name, one) for name, make in BACK_ENDS.items() for one in MUTANTS if one in make().made}
    assert {(row.back_end, row.mutant) for row in ROWS} == due
    assert len(ROWS) == len(due)


def test_what_plain_data_miss_a_family_finds():
    missed = [row for row in ROWS if not row.by_plain]
    assert len(missed) >= 50
    for row in missed:
        assert row.rejected, row
        assert row.by_family or row.hidden, row


def test_what_plain_data_find_families_find():
    assert all(row.by_family for row in ROWS if row.by_plain)


def chosen(by_plain):
    """A few of one back end, the first of their kind."""
    rows = [row for row in ROWS if row.back_end == "emulator" and row.by_plain is by_plain]
    return [row for row in rows if row.by_family][:2]


@pytest.mark.parametrize("row", [*chosen(True), *chosen(False)], ids=lambda row: row.mutant)
def test_a_row_measured_again_is_the_same(row, monkeypatch):
    monkeypatch.setattr(plain, "MUTANTS", {row.mutant: MUTANTS[row.mutant]})
    assert list(plain.measure(row.back_end, lambda said: None)) == [row]


def test_a_plain_case_has_the_sizes_of_the_other():
    assert plain_case("rows/gap-8,heads=3,kv_heads=1,queries=5,keys=9,softmax_scale=0.25@7") == (
        "gaussian/spread-1,batch=1,heads=3,kv_heads=1,queries=5,keys=9,head_dim=64,causal=1,"
        "softmax_scale=0.25@0"
    )
