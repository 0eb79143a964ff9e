"""Writing the goals out as SMT-LIB 2, so that anyone can put them to a solver of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dmverify.proofs.registry import all_lemmas, get_lemma
from dmverify.proofs.solve import refutation, smtlib


def export(directory: Path, *, lemma_ids: Sequence[str] | None = None) -> tuple[Path, ...]:
    """Write one script per goal; each is unsatisfiable exactly when its goal is valid.

    Args:
        directory: Where to; made if missing.
        lemma_ids: Lemmas to write; None writes all.

    Returns:
        The files, ``<lemma id>.<number>.smt2`` in the order of the goals.

    Raises:
        UnknownNameError: No lemma has one of these ids.
    """
    chosen = all_lemmas() if lemma_ids is None else [get_lemma(name) for name in lemma_ids]
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for entry in chosen:
        for number, goal in enumerate(entry.build(entry.constant)):
            path = directory / f"{entry.id}.{number}.smt2"
            header = f"; {entry.id}: {entry.statement}\n; goal: {goal.name}\n; expect: unsat\n"
            path.write_text(header + smtlib(refutation(goal)), encoding="utf-8")
            written.append(path)
    return tuple(written)
