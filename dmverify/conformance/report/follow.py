"""Which failures say nothing new: each follows from checks that fail on the same elements."""

from __future__ import annotations

from collections.abc import Iterable

from dmverify.conformance.verdict import Finding, Verdict


def followers(findings: Iterable[Finding]) -> frozenset[tuple[str, str]]:
    """Check and case of every failure whose cause fails in the same case by itself.

    A check that was not asked for reports nothing, so nothing follows from it here.
    """
    failed = [finding for finding in findings if finding.verdict is Verdict.FAILS]
    by_itself = {(f.check, f.case) for f in failed}
    return frozenset(
        (f.check, f.case)
        for f in failed
        if f.follows and all((check, f.case) in by_itself for check in f.follows)
    )


def sources(found: Iterable[Finding], following: frozenset[tuple[str, str]]) -> tuple[str, ...]:
    """The checks from which every failure of one check follows; empty if one stands alone."""
    failed = [finding for finding in found if finding.verdict is Verdict.FAILS]
    if not all((finding.check, finding.case) in following for finding in failed):
        return ()
    return tuple(dict.fromkeys(check for finding in failed for check in finding.follows))
