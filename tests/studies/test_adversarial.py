"""The study of worst cases: its kernel keeps every contract, its cells are shared and go on."""

import json
from dataclasses import fields
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.verdict import Verdict
from dmverify.spec.contracts import DELTAS, DS_CASTS
from dmverify.studies import STUDIES
from dmverify.studies.adversarial import cells
from dmverify.studies.adversarial import study as adversarial
from dmverify.studies.adversarial.cells import (
    EVALUATIONS,
    Cell,
    keep,
    kept,
    list_cells,
    measure,
    taken,
)
from dmverify.studies.adversarial.kernel import EveryMode

CASE = "gaussian/spread-2,batch=1,heads=2,kv_heads=1,queries=70,keys=90,head_dim=32,causal={}@0"

FIELDS = tuple(field.name for field in fields(Cell))


class NothingCarried(EveryMode):
    """The nearest cast where errors should be carried."""

    def _cast_ds(self, ds, tile):
        self._zero_sum = None
        return super()._cast_ds(ds, tile)


def rejected(kernel, contract, causal):
    case = generate(CASE.format(causal), contract=contract)
    assert kernel.supports(case)
    evidence = Evidence(case, kernel.forward(case), answer := kernel.backward(case))
    verdicts = {n: judge_band(n, case.id, x, evidence.bands[n]).verdict for n, x in answer.items()}
    return {name for name, verdict in verdicts.items() if verdict is Verdict.FAILS}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("delta", "ds_cast"), list(product(DELTAS, DS_CASTS)))
def test_the_kernel_of_every_mode_keeps_its_contract(delta, ds_cast, causal):
    contract = Cell(delta, ds_cast, "inputs", 32, 0.0, 0, 1).contract
    assert rejected(EveryMode(), contract, causal) == set()


def test_a_cast_that_carries_nothing_is_no_zero_sum_cast():
    assert {"dq", "dk"} <= rejected(NothingCarried(), "article:ds_cast=zero-sum", 0)


def test_rows_of_the_zero_sum_cast_sum_to_less():
    case = generate(CASE.format(0), contract="article:ds_cast=zero-sum")
    sums = [
        np.abs(EveryMode().internals(one).ds_cast.sum(-1)).mean()
        for one in (case, generate(case.id, contract="article"))
    ]
    assert sums[0] < 0.5 * sums[1]


def test_cells_are_taken_once_and_a_run_goes_on(tmp_path):
    some = list_cells((0,), (32,))[:3]
    assert len({cell.name for cell in list_cells((0, 1), (32, 64))}) == 2 * 8 * 2 * (2 + 6)
    first, other = taken(some, tmp_path), taken(some, tmp_path)
    held = next(first)
    assert held == some[0]
    assert next(other) == some[1]
    keep(tmp_path, held, {"worst": 1.0})
    other.close()
    assert list(first) == some[1:]
    assert list(taken(some[:1], tmp_path)) == []
    assert kept(tmp_path, some) == [{"worst": 1.0}]


def test_an_attack_of_a_cell_says_what_other_modes_do():
    found = measure(Cell("stale", "nearest", "operands", 32, 0.0, 0, 600))
    assert found["worst"] > found["drawn"] > 0
    assert found["others"]["stale nearest"] == pytest.approx(found["worst"])
    assert found["others"]["matched nearest"] < found["worst"]
    assert len(found["others"]) == len(DELTAS) * len(DS_CASTS)


@pytest.mark.parametrize("against", ["inputs", "operands"])
def test_repeated_tokens_keep_the_error_at_any_length(against, tmp_path):
    """What a long attack starts from: as bad as at 32 tokens, and within the same limits."""
    long = Cell("matched", "nearest", against, 128, 0.0, 0, 60)
    found = measure(long)
    short = measure(Cell("matched", "nearest", against, 32, 0.0, 0, 320), tmp_path)
    assert found["start"] == pytest.approx(short["worst"], rel=1e-3)
    assert found["worst"] >= found["start"] > found["drawn"]
    assert measure(long, tmp_path) == found


def test_the_study_writes_tables_and_says_what_is_missing(tmp_path, monkeypatch):
    few = [
        Cell(delta, "nearest", "operands", 32, 0.0, 0, 300) for delta in ("stale", "matched")
    ] + [Cell("stale", "nearest", "inputs", "chars-step800/layer1", 0.03, 0, 100)]
    monkeypatch.setattr(adversarial, "list_cells", lambda *args: few)
    result = STUDIES["adversarial"].run(quick=True, out=tmp_path)
    data = json.loads((tmp_path / "adversarial.json").read_text())
    assert [row["delta"] for row in data["cells"]] == ["stale", "matched", "stale"]
    assert data["cells"][2]["worst"] > data["cells"][2]["as it is"]
    text = {table.title: table for table in result.tables()}
    assert not any(table.note for table in text.values())
    monkeypatch.setattr(cells, "DRAWN", 10)
    short = adversarial.result_of(data["cells"][:1], 3, (32,))
    assert "1 of 3" in short.tables()[0].note


def test_what_is_recorded_is_a_part_that_the_study_lists():
    path = Path(cells.__file__).parents[1] / "recorded" / "adversarial.json"
    rows = json.loads(path.read_text())["cells"]
    listed = {cell.name for cell in list_cells(adversarial.SEEDS, tuple(EVALUATIONS))}
    names = [Cell(*(row[key] for key in FIELDS)).name for row in rows]
    assert len(names) == len(set(names)) == 304
    assert {row["seed"] for row in rows} >= {0, 1}
    assert set(names) <= listed
    for row in (row for row in rows if row["others"]):
        mine = row["others"][f"{row['delta']} {row['ds_cast']}"]
        assert mine == pytest.approx(row["worst"], rel=1e-3)
