"""The theorems: their list without a checker, and with one that a false statement is rejected."""

import os
import shutil

import pytest

from dmverify.proofs import theorems
from dmverify.proofs.theorems import AXIOMS, SOURCES, TheoremError, check_theorems, list_theorems

needs_coqc = pytest.mark.skipif(
    shutil.which("coqc") is None and not os.environ.get("CI"), reason="coqc is not installed"
)

# What it needs, what it says, what it would say: a constant halved, a term dropped, a premise
# removed, an order changed, a flush forgotten, an identity with a term less.
FALSE = {
    "halved": (("Binary32", "Sums"), "- 1) * u * mass t.", "- 1) * u / 2 * mass t."),
    "term dropped": (
        ("Binary32", "Sums", "Inner", "Rows"),
        "Rabs delta * Rabs (1 - B r) + elem_bound delta r.",
        "elem_bound delta r.",
    ),
    "premise removed": (("Binary32", "Casts"), "(x = 0 \\/ / 64 <= Rabs x)", "True"),
    "another order": (("TensorCore",), "/ 8192 * K * ((n + 1) * W", "/ 8192 * ((n + 1) * W"),
    "underflow forgotten": (("Binary32", "Inner"), " + n * (1 + n * u) * eta.", "."),
    "term less": (("Binary32", "Ledger"), "R_row = prob + vmis + grad + acc", "R_row = prob + acc"),
}


def test_every_delta_and_cast_has_a_theorem():
    names = {one.name for one in list_theorems()}
    assert names >= {
        "sum_any_tree", "inner_any_order", "matched", "renormalized", "shifted", "ledger_stale",
        "stale_bound", "eq2", "ledger_consistent", "ledger_associated", "nearest_cast",
        "zero_sum_cast", "carry_needs_no_rounding", "column_sums", "column_sum_bound", "any_chain",
        "bf16_store", "quotient_range",
    }  # fmt: skip
    assert all(one.statement for one in list_theorems())


def test_every_file_is_in_the_order():
    assert {path.stem for path in SOURCES.glob("*.v")} == set(theorems.FILES)


@needs_coqc
def test_they_all_hold_on_the_axioms_of_the_real_numbers():
    assert check_theorems() == list_theorems()


@needs_coqc
@pytest.mark.parametrize("name", FALSE)
def test_a_false_statement_is_rejected(name, tmp_path):
    files, true, false = FALSE[name]
    file = files[-1]
    shutil.copytree(SOURCES, tmp_path / "rocq")
    text = (tmp_path / "rocq" / f"{file}.v").read_text()
    assert true in text
    (tmp_path / "rocq" / f"{file}.v").write_text(text.replace(true, false))
    with pytest.raises(TheoremError, match=f"{file}.v"):
        check_theorems(tmp_path / "rocq", files=files)


@needs_coqc
@pytest.mark.parametrize("hole", ["Admitted.", "Axiom easy : False."])
def test_an_open_proof_is_found_by_its_axiom(hole, tmp_path):
    shutil.copytree(SOURCES, tmp_path / "rocq")
    path = tmp_path / "rocq" / "Stores.v"
    text = path.read_text()
    statement = "Theorem one_is_two : 1 = 2.\nProof."
    proof = "Admitted." if hole == "Admitted." else "destruct easy. Qed."
    extra = "" if hole == "Admitted." else hole + "\n"
    path.write_text(f"{text}\n{extra}{statement} {proof}\n")
    with pytest.raises(TheoremError, match="one_is_two rests on"):
        check_theorems(tmp_path / "rocq", files=("Binary32", "Stores"))


def test_the_allowed_axioms_are_those_of_the_real_numbers():
    assert len(AXIOMS) == 4


def test_without_coqc_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(theorems.shutil, "which", lambda name: None)
    with pytest.raises(theorems.DependencyError, match="libcoq-flocq"):
        check_theorems()
