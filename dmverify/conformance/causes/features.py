"""What is compared of two failures: words for the checks that fail and the patterns in them.

| word | says |
|---|---|
| dq | the check fails |
| dq follows | and only where another does |
| dq zero, dq factor, dq factor -1, dq shifted query 1, ... | a trait, its value, its axis |
| dq off 2^-6 | the error is at least that, of what is due; one word for each step below it |
| dq share 1/32 | at least that part of all elements failed; one word for each step below it |
| dq query part, one, block, steps, some | along an axis that is not whole: how the places lie |

Neither the case nor its sizes are among them: what fails on one case is known again on another. A
trait that tells its cause by itself (``TELLING``) is no word: likeness has nothing to add to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from dmverify.conformance.pattern import Pattern, Span, Trait
from dmverify.conformance.verdict import Finding, Verdict

STEPS = (-12, -9, -7, -5, -3, -1, 1)  # powers of two of an error
SHARES = (10, 7, 5, 3, 1)  # negative powers of two of a share
BLOCK = 64
TELLING = {"without-key": "mask"}
"""Traits that only one cause has, by what is found of LSE, and where O fails as well."""
TOLD = "LSE is what it is without a key"


def words_of(findings: Iterable[Finding]) -> frozenset[str]:
    """The words of one case's findings."""
    return frozenset(
        word for finding in findings if finding.verdict is Verdict.FAILS for word in _words(finding)
    )


def told_by(cases: Sequence[Sequence[Finding]]) -> str:
    """The cause that LSE tells by itself in each of these cases in which it fails; else empty."""
    failed = [f for found in cases for f in found if f.verdict is Verdict.FAILS]
    told = [
        {TELLING[t.kind] for t in f.pattern.traits if t.kind in TELLING} if f.pattern else set()
        for f in failed
        if f.check == "lse"
    ]
    if not told or all(f.check != "o" for f in failed):
        return ""
    return next(iter(set.intersection(*told)), "")


def check_of(word: str) -> str:
    """The check that a word is about."""
    return word.partition(" ")[0]


def _words(finding: Finding) -> Iterator[str]:
    yield finding.check
    if finding.follows:
        yield f"{finding.check} follows"
    if finding.pattern is not None:
        for word in (*_of_pattern(finding.pattern), *_of_places(finding.pattern)):
            yield f"{finding.check} {word}"


def _of_pattern(pattern: Pattern) -> Iterator[str]:
    for trait in pattern.traits:
        if trait.kind not in TELLING:
            yield from _of_trait(trait)
    if pattern.error > 0:
        yield from (f"off 2^{step}" for step in STEPS if pattern.error >= 2.0**step)


def _of_trait(trait: Trait) -> Iterator[str]:
    yield trait.kind
    if trait.axis:
        yield f"{trait.kind} {trait.axis}"
    if trait.kind == "shifted":
        yield f"{trait.kind} {trait.axis} {int(trait.value)}"
    if trait.kind in ("factor", "offset"):
        yield f"{trait.kind} {trait.name or f'{trait.value:.2g}'}"


def _of_places(pattern: Pattern) -> Iterator[str]:
    yield from (f"share 1/{2**step}" for step in SHARES if pattern.failed * 2**step >= pattern.of)
    for span in pattern.where:
        if span.size > 1:
            yield f"{span.axis} {_places(span)}"


def _places(span: Span) -> str:
    if span.whole:
        return "whole"
    if span.count == 1:
        return "last" if span.first == span.size - 1 else "one"
    if span.first % BLOCK == 0 and span.first and span.last == span.size - 1:
        return "block"
    if math.isclose(span.count, span.size, rel_tol=0.05):
        return "nearly whole"
    return "part" if span.step == 1 else "steps" if span.step else "some"
