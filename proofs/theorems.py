"""The theorems in ``rocq/``: checked by coqc, and what each rests on.

A theorem holds for every length and every order, where a solver's lemma has a fixed number of
terms. ``check_theorems`` compiles the files in their order in a folder of its own and asks the
checker for the axioms of each theorem: those of the real numbers are allowed and no others, so a
proof that was left open, or a premise that was assumed, is found.

Not needed for anything else: without coqc (Debian: coq, libcoq-flocq, libcoq-interval) all other
proofs still run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dmverify.errors import DependencyError, DmverifyError

SOURCES = Path(__file__).parent / "rocq"
FILES = (
    "Binary32", "Sums", "Inner", "Orders", "Rows", "Casts", "Stores", "Known", "Ledger",
    "Columns", "TensorCore", "NaturalChain", "AnyOrder", "Softmax", "Probability", "Coded",
    "Rounded", "Reciprocal", "Rounding", "Codes", "Flushed", "Arguments", "Centring", "Tables",
    "Closed", "Windows", "Passes", "Casting", "Kernel", "Shares", "EndToEnd", "OwnRows",
    "ClosedRows", "CarriedRows", "Composed", "Enclosed",
)  # fmt: skip
"""Each may use the ones before it."""

AXIOMS = frozenset(
    {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "Classical_Prop.classic",
        "FunctionalExtensionality.functional_extensionality_dep",
    }
)
"""What the real numbers of the standard library rest on."""

MARK = "axioms of "
_STATEMENT = re.compile(
    r"^ *(?:Theorem|Corollary)\s+(\w+)\s*:\s*(.*?)\.\n *Proof", re.MULTILINE | re.DOTALL
)


class TheoremError(DmverifyError):
    """A theorem that the checker rejects, or one that rests on more than the real numbers."""

    code = "DMV-THEOREM"
    exit_code = 1


@dataclass(frozen=True)
class Theorem:
    """One theorem.

    Attributes:
        name: Its name.
        file: The file it is in.
        statement: Its text.
    """

    name: str
    file: str
    statement: str


def list_theorems(sources: Path = SOURCES, *, files: Sequence[str] = FILES) -> tuple[Theorem, ...]:
    """Every theorem and corollary, in the order of the files."""
    return tuple(
        Theorem(name, file, " ".join(text.split()))
        for file in files
        for name, text in _STATEMENT.findall((sources / f"{file}.v").read_text())
    )


def check_theorems(sources: Path = SOURCES, *, files: Sequence[str] = FILES) -> tuple[Theorem, ...]:
    """Compiles every file and the axioms' report; returns the theorems that hold.

    Args:
        sources: The folder of the files.
        files: Those to compile, each after the ones that it uses.

    Raises:
        DependencyError: If there is no coqc.
        TheoremError: If a proof is rejected, or a theorem rests on another axiom.
    """
    coqc = shutil.which("coqc")
    if coqc is None:
        raise DependencyError(
            "no coqc",
            rule="theorems are checked by Rocq",
            fix="install coq, libcoq-flocq and libcoq-interval",
        )
    theorems = list_theorems(sources, files=files)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for file in files:
            shutil.copy(sources / f"{file}.v", work)
            _compile(coqc, work, file)
        _require_axioms(coqc, work, theorems)
    return theorems


def _compile(coqc: str, work: Path, file: str) -> str:
    words = [coqc, "-q", "-R", ".", "dmverify", f"{file}.v"]
    done = subprocess.run(words, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        last = " ".join(done.stderr.split())[-300:]
        raise TheoremError(f"{file}.v: {last}", rule="every proof is checked", fix="mend the proof")
    return done.stdout


def _require_axioms(coqc: str, work: Path, theorems: Sequence[Theorem]) -> None:
    """Asks of each file's theorems together, and of each theorem of a file that rests on more."""
    files: dict[str, list[Theorem]] = {}
    for one in theorems:
        files.setdefault(one.file, []).append(one)
    found = _axioms(coqc, work, files)
    suspects = [one for one in theorems if not found[one.file] <= AXIOMS]
    for name, axioms in _axioms(coqc, work, {one.name: [one] for one in suspects}).items():
        if not axioms <= AXIOMS:
            raise TheoremError(
                f"{name} rests on {', '.join(sorted(axioms - AXIOMS))}",
                rule="a theorem rests on the real numbers alone",
                fix="prove what was assumed",
            )


def _axioms(
    coqc: str, work: Path, groups: Mapping[str, Sequence[Theorem]]
) -> Mapping[str, frozenset[str]]:
    """What each group of theorems rests on; "no report" where the checker says nothing of it."""
    groups = {name: group for name, group in groups.items() if group}
    if not groups:
        return {}
    files = dict.fromkeys(one.file for group in groups.values() for one in group)
    lines = [f"From dmverify Require {' '.join(files)}."]
    for name, group in groups.items():
        together = ", ".join(f"{one.file}.{one.name}" for one in group)
        lines.append(f"Definition group_{name} := ({together}, I).")
        lines.append(f'Goal True. idtac "{MARK}{name}". Abort.')
        lines.append(f"Print Assumptions group_{name}.")
    (work / "Axioms.v").write_text("\n".join(lines) + "\n")
    said = {
        name: frozenset(re.findall(r"^([\w.]+)\s*(?=:)", text, re.MULTILINE)) - {"Axioms"}
        for name, _, text in (
            part.partition("\n") for part in _compile(coqc, work, "Axioms").split(MARK)[1:]
        )
    }
    return {name: said.get(name, frozenset({"no report"})) for name in groups}
