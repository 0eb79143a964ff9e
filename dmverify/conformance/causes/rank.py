"""Which known faults are nearest to a failure.

Two failures are as near as the words that both have weigh against the words that either has; a word
that few faults have weighs more. Checks that were not judged take no part on either side. A cause
is as near as its nearest fault. It is a likeness, not a proof: a fault that is not in the table
gets the causes that look most like it. Where what fails tells its cause by itself, it is the first
(``features.TELLING``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.conformance.causes.features import TOLD, check_of, told_by, words_of
from dmverify.conformance.verdict import Finding, Verdict

DATA = "data/signatures.json"
SHOWN = 3
CASES = 12  # failed cases that are looked at, of as many families as there are
JUDGED = (Verdict.CONFORMS, Verdict.FAILS)


@dataclass(frozen=True)
class Likely:
    """One cause.

    Attributes:
        id: Its id.
        words: What is wrong.
        fault: Id of the seeded fault that is nearest.
        likeness: From 0 to 1.
    """

    id: str
    words: str
    fault: str
    likeness: float


@dataclass(frozen=True)
class Signatures:
    """What is known of the seeded faults.

    Attributes:
        checks: Checks that judged them.
        causes: By id, the words and the faults.
        faults: The fault of each signature.
        words: Every word.
        has: Which signature has which word, (signatures, words).
    """

    checks: frozenset[str]
    causes: dict[str, tuple[str, tuple[str, ...]]]
    faults: tuple[str, ...]
    words: tuple[str, ...]
    has: npt.NDArray[np.bool_]


def likely_causes(findings: Iterable[Finding], *, count: int = SHOWN) -> tuple[Likely, ...]:
    """The causes that are nearest to the failures of a run, nearest first.

    Args:
        findings: All findings of a kernel; those of a case belong together.
        count: How many causes.

    Returns:
        Nothing if no check fails that judged the seeded faults.
    """
    known = signatures()
    cases: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.check in known.checks and finding.verdict in JUDGED:
            cases.setdefault(finding.case, []).append(finding)
    failed = [found for found in cases.values() if words_of(found)]
    if not failed:
        return ()
    some = _spread(failed)
    near = np.mean([likeness(known, words_of(f), {x.check for x in f}) for f in some], axis=0)
    ranked, told = _causes(known, near), told_by(failed)
    first = [replace(cause, words=f"{cause.words}; {TOLD}") for cause in ranked if cause.id == told]
    return tuple([*first, *(cause for cause in ranked if cause.id != told)][:count])


def likeness(known: Signatures, words: frozenset[str], judged: set[str]) -> npt.NDArray[np.float64]:
    """How near each signature is, from 0 to 1.

    Args:
        known: The signatures.
        words: Words of the failure.
        judged: The checks that judged it.
    """
    held = np.array([check_of(word) in judged for word in known.words])
    weight = held * np.log(1 + len(known.faults) / np.maximum(known.has.sum(axis=0), 1))
    here = np.array([word in words for word in known.words])
    new = len(words - frozenset(known.words)) * np.log(1 + len(known.faults))
    both = (known.has & here) @ weight
    either = (known.has | here) @ weight + new
    return np.asarray(both / np.maximum(either, 1e-9))


def ranked_faults(known: Signatures, near: npt.NDArray[np.float64]) -> list[tuple[str, float]]:
    """Every fault with the likeness of its nearest signature, nearest first."""
    best: dict[str, float] = {}
    for fault, value in zip(known.faults, near.tolist(), strict=True):
        best[fault] = max(value, best.get(fault, 0.0))
    return sorted(best.items(), key=lambda row: -row[1])


def _causes(known: Signatures, near: npt.NDArray[np.float64]) -> list[Likely]:
    owner = {fault: cause for cause, (_, faults) in known.causes.items() for fault in faults}
    found: dict[str, Likely] = {}
    for fault, value in ranked_faults(known, near):
        cause = owner[fault]
        found.setdefault(cause, Likely(cause, known.causes[cause][0], fault, value))
    return list(found.values())


def _spread(failed: Sequence[list[Finding]]) -> list[list[Finding]]:
    """Chooses cases: the first of every family, then the second, until there are enough."""
    seen: dict[str, int] = {}
    order = []
    for i, found in enumerate(failed):
        family = found[0].case.partition("/")[0]
        order.append((seen.get(family, 0), i))
        seen[family] = seen.get(family, 0) + 1
    return [failed[i] for _, i in sorted(order)[:CASES]]


@cache
def signatures() -> Signatures:
    """The signatures that ship."""
    return read(json.loads(files(__package__).joinpath(DATA).read_text()))


def read(data: dict[str, Any]) -> Signatures:
    """Signatures from their JSON form (``lab.mutants.signatures``)."""
    rows = data["signatures"]
    has = np.zeros((len(rows), len(data["words"])), dtype=bool)
    for i, row in enumerate(rows):
        has[i, row["words"]] = True
    causes = {row["id"]: (row["words"], tuple(row["faults"])) for row in data["causes"]}
    faults = tuple(row["fault"] for row in rows)
    return Signatures(frozenset(data["checks"]), causes, faults, tuple(data["words"]), has)
