"""Exact specification and conformance tests for block-scaled FP8 attention on Hopper.

>>> import dmverify
>>> report = dmverify.verify("simulation", cases=["lengths/n17@0"])
>>> report.ok, report.margin["dk"] <= 1
(True, True)

``verify`` judges a kernel, ``ledger`` splits the residual of every row into exact terms, ``bounds``
says how far a conforming kernel may be from the reference. They are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dmverify.errors import naming_extras

if TYPE_CHECKING:
    from dmverify.ci.suite import conformance_tests
    from dmverify.conformance.bounds import bounds
    from dmverify.conformance.captures.calls import capture
    from dmverify.conformance.verify import verify
    from dmverify.spec.case import Case, Inputs
    from dmverify.spec.ledger import ledger
    from dmverify.spec.problem import Problem

__version__ = "0.1.0"

__all__ = [
    "Case",
    "Inputs",
    "Problem",
    "bounds",
    "capture",
    "conformance_tests",
    "ledger",
    "verify",
]

_HOMES = {
    "Case": "dmverify.spec.case",
    "Inputs": "dmverify.spec.case",
    "Problem": "dmverify.spec.problem",
    "bounds": "dmverify.conformance.bounds",
    "capture": "dmverify.conformance.captures.calls",
    "conformance_tests": "dmverify.ci.suite",
    "ledger": "dmverify.spec.ledger",
    "verify": "dmverify.conformance.verify",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dmverify' has no attribute {name!r}")
    with naming_extras():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
