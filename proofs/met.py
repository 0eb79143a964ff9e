"""How a premise of a theorem is met: see ``obligations``, which says what the words mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Met:
    """How a premise is met.

    Attributes:
        how: One of ``row``, ``code``, ``theorem`` and ``meaning``.
        where: Lemma of a row, ``module:object``, or name of a theorem; empty for a meaning.
        words: Why that meets it.
    """

    how: str
    where: str
    words: str
