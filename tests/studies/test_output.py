"""What a study writes: whole files, valid SVG, the same bytes every time."""

import json
import sys
from xml.etree import ElementTree

import pytest

from dmverify.errors import DependencyError, InputError
from dmverify.studies import STUDIES
from dmverify.studies.plot import Panel, Plot, Series, render


@pytest.fixture(scope="module")
def result():
    return STUDIES["worked-row"].run()


def test_files(result, tmp_path):
    paths = result.write(tmp_path / "new")
    names = {path.name for path in paths}
    assert names == {"worked-row.json", "worked-row-terms-seed5.svg", "worked-row.html"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    assert json.loads((tmp_path / "new/worked-row.json").read_text()) == result.to_json()
    ElementTree.parse(tmp_path / "new/worked-row-terms-seed5.svg")
    page = (tmp_path / "new/worked-row.html").read_text()
    assert "<svg" in page
    assert all(table.title in page for table in result.tables())


def test_out_writes_and_progress_is_told(tmp_path):
    lines = []
    found = STUDIES["worked-row"].run(seeds=(3,), out=tmp_path, progress=lines.append)
    assert lines == ["row of seed 3"]
    assert found.command == "dmverify study worked-row --out DIR --seeds 3"
    assert (tmp_path / "worked-row.html").exists()


def test_same_picture_twice(result):
    assert [render(plot) for plot in result.plots] == [render(plot) for plot in result.plots]


def test_without_matplotlib_nothing_is_written(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "dmverify.studies.drawing", raising=False)
    with pytest.raises(DependencyError, match="matplotlib"):
        result.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failed_write_leaves_nothing(result, tmp_path):
    (tmp_path / "worked-row.json").mkdir()  # a file cannot replace it
    with pytest.raises(InputError, match="worked-row"):
        result.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["worked-row.json"]


def test_missing_values_are_left_out():
    """None and 0 have no place on a logarithmic axis; the other points keep theirs."""

    def drawn(y):
        both = (Series("line", y, "matched", "dots"), Series("axes", (1.0, 1.0, 2.0), "plain"))
        return render(Plot("p", "", "x", (1.0, 2.0, 4.0), (Panel("t", "y", both),)))

    assert drawn((None, 0.0, 2.0)).count("<use") == drawn((1.0, 1.0, 2.0)).count("<use") - 2


def test_a_short_logarithmic_axis_keeps_its_small_ticks():
    """Else one label or none says how large the values are."""
    line = (Series("line", (3.0, 4.0, 5.0), "matched"),)
    svg = render(Plot("p", "", "x", (1.0, 2.0, 4.0), (Panel("t", "y", line),)))
    assert svg.count("ytick") > 2
    assert svg.count("xtick") == 3


def test_text_is_escaped():
    from dmverify.studies.page import html_page
    from dmverify.studies.study import Table

    page = html_page("a < b", ("<i>",), (Table("|x| < y", ("c",), (("<script>",),)),), ())
    assert "<script>" not in page
    assert "a &lt; b" in page
