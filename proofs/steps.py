"""A step of the derivation, and a part of it: see ``derivation``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        title: What it says, in a few words.
        words: Why, and for what it is used.
        theorems: Their names, in ``rocq/``.
        lemmas: Ids of lemmas and certificates.
        code: ``module:object`` that uses it, below ``dmverify``.
    """

    title: str
    words: str
    theorems: tuple[str, ...]
    lemmas: tuple[str, ...]
    code: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Steps that belong together."""

    title: str
    steps: tuple[Step, ...]


SIZES = "spec.ledger.bounds.magnitudes"
SOFTMAX = "spec.ledger.bounds.softmax"
FORWARD = "spec.ledger.bounds.forward"
DELTA = "spec.ledger.bounds.correction"
CAST = "spec.ledger.bounds.cast"
