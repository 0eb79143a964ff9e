"""Exported scripts are complete: another solver reads them from disk and agrees."""

import subprocess
import sys

import pytest

from dmverify.errors import UnknownNameError
from dmverify.proofs import export


def test_exported_goals_are_unsatisfiable_for_a_fresh_process(tmp_path):
    paths = export(tmp_path / "smt", lemma_ids=["sum-any-tree", "carry-exact"])
    assert [path.name for path in paths] == [
        *(f"sum-any-tree.{i}.smt2" for i in range(4)), "carry-exact.0.smt2",
    ]  # fmt: skip
    assert paths[0].read_text().startswith("; sum-any-tree: An fp32 sum of n numbers")
    code = (
        "import sys, z3\n"
        "for path in sys.argv[1:]:\n"
        "    solver = z3.Solver()\n"
        "    solver.from_file(path)\n"
        "    print(solver.check())\n"
    )
    command = [sys.executable, "-c", code, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unsat"] * len(paths)


def test_unknown_lemmas_are_refused(tmp_path):
    with pytest.raises(UnknownNameError):
        export(tmp_path, lemma_ids=["no-such-lemma"])
