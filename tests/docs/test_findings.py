"""The pages of findings are what the records say, and a page that parts from them is noticed."""

import copy
import importlib.util

import pytest

from dmverify.studies.recorded import recorded
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def figures():
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs/tools/figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_say_what_the_records_say(figures):
    made = figures.pages()
    assert set(made) == {path.name for path in (ROOT / "docs/findings").glob("*.md")}
    for name, text in made.items():
        assert (ROOT / "docs/findings" / name).read_text() == text, (
            f"run docs/tools/figures.py: {name}"
        )


def test_pictures_of_pages_exist(figures):
    for study, picture in figures.PICTURES:
        assert (ROOT / f"docs/findings/{study}-{picture}.svg").exists()
        assert any(f"{study}-{picture}.svg" in text for text in figures.pages().values())


def test_another_record_makes_another_page(figures):
    changed = copy.deepcopy(recorded("train"))
    row = next(row for row in changed["rows"] if row["name"] == "stale")
    row["gap"] += 1.0
    made = figures.pages(lambda name: changed if name == "train" else recorded(name))
    assert made["training.md"] != (ROOT / "docs/findings/training.md").read_text()


def test_a_figure_that_does_not_exist_is_an_error(figures):
    with pytest.raises(KeyError, match="no such"):
        figures.filled("{{ no such }}", {}, set())


def test_a_figure_that_no_page_names_is_an_error(figures, monkeypatch):
    known = figures.figures
    monkeypatch.setattr(figures, "figures", lambda read: {**known(read), "forgotten": "1"})
    with pytest.raises(ValueError, match="forgotten"):
        figures.pages()
