"""Planted errors in bounds and theorems are noticed: some of them here, all by the command."""

import ast
import subprocess
import sys

import pytest

from dmverify.errors import DmverifyError
from dmverify.proofs import sabotage
from dmverify.proofs.sabotage import PACKAGE, apply, caught_by, edited, edits, get_edit

ONE_OF_A_KIND = ("match-halved", "elem-shift-rounding", "quad-windows", "match-flush")
SCRIPT = "import dmverify.spec.ledger.bounds.correction as c; print(c.__file__)"


@pytest.mark.parametrize("edit", edits(), ids=lambda edit: edit.id)
def test_an_edit_still_finds_its_place(edit):
    assert edited(edit) != (PACKAGE / edit.file).read_text()


@pytest.mark.parametrize("edit", edits(), ids=lambda edit: edit.id)
def test_an_edit_is_noticed_for_what_it_says_and_not_for_an_unknown_name(edit):
    if not edit.file.endswith(".py"):
        return
    before = (PACKAGE / edit.file).read_text()
    names = [
        {x.id for x in ast.walk(ast.parse(t)) if isinstance(x, ast.Name)}
        for t in (before, edited(edit))
    ]
    assert names[1] <= names[0]


def test_they_are_of_every_kind_and_in_every_place():
    kinds = {edit.kind for edit in edits()}
    assert kinds == {
        "constant halved", "term dropped", "premise removed", "ends exchanged", "tree changed",
        "flush forgotten",
    }  # fmt: skip
    assert len(edits()) >= 20
    for place in ("spec/bounds/", "spec/ledger/", "proofs/rocq/"):
        assert sum(edit.file.startswith(place) for edit in edits()) >= 4


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_one_of_each_kind_is_noticed_by_the_ties(name):
    assert caught_by(get_edit(name)) == "ties"


def test_the_edited_package_is_the_one_that_runs(tmp_path):
    """And nothing else changes: without an edit nothing is noticed."""
    file = apply(get_edit("match-halved"), tmp_path)
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(file)
    file.write_text((PACKAGE / "spec/ledger/bounds/correction.py").read_text())
    assert not sabotage._fails(["-m", "dmverify", "prove", "--ties"], tmp_path)


def test_an_edit_without_a_place_is_refused():
    from dataclasses import replace

    with pytest.raises(DmverifyError, match="0 times"):
        edited(replace(edits()[0], old="what stands nowhere"))
    with pytest.raises(DmverifyError, match="no-such-edit"):
        get_edit("no-such-edit")
