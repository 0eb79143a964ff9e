"""A report as JSON values.

| key | value |
|---|---|
| format, version, made_with | ``FORMAT``, ``VERSION`` (see ``document``), the version of dmverify |
| ok | true if something was judged and all of it conforms, or fails as expected |
| verdict | a value of ``dmverify.conformance.verdict.Verdict`` |
| kernel, contract, level, seed | what was asked |
| contracts | what each contract that is named says, as text |
| subjects | of each part kernel, contract, judged_by, cases asked and served, families declined, |
| | what the kernel says it is, and of each case its verdict, margins and errors |
| coverage | how many cases of each family were asked |
| served | the same numbers over all subjects, and the fraction that was required of each |
| max_error | limits of errors from float64 attention, by output |
| notes, warnings | what was not judged, and why; stale expectations |
| interrupted | true if Ctrl-C ended the run; what was not judged is not there, and ok is false |
| causes | by likeness, what most likely is wrong: kernel, id, words, fault, likeness |
| checks | the fields of ``dmverify.conformance.report.report.Summary`` |

JSON has no infinity and no NaN: an infinite margin is written as the largest float64, so that
``margin <= 1`` still says what it should, and every other such number as null.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dmverify import __version__
from dmverify.conformance.accuracy import Accuracy
from dmverify.conformance.pattern import Heat, Pattern
from dmverify.conformance.report.phrases import in_words
from dmverify.conformance.verdict import SEVERITY, Element, Finding
from dmverify.conformance.words import all_visible
from dmverify.spec.recording import contract_texts

if TYPE_CHECKING:
    from dmverify.conformance.report.errors import Errors
    from dmverify.conformance.report.report import Report, Subject, Summary


FORMAT, VERSION = "dmverify-report", 1


def as_json(report: Report) -> dict[str, Any]:
    """The report ready for ``json.dumps(..., allow_nan=False)``, every text fit to show."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "made_with": __version__,
        "ok": report.ok,
        "verdict": report.verdict.value,
        "kernel": report.kernel,
        "contract": report.contract,
        "contracts": contract_texts(("", name) for s in report.subjects for name in s.contracts),
        "level": report.level,
        "seed": report.seed,
        "subjects": [_subject(subject) for subject in report.subjects],
        "served": {
            "asked": report.served.asked,
            "served": report.served.served,
            "required": report.min_served,
        },
        "coverage": _families(report),
        "max_error": dict(report.max_error),
        "notes": list(report.notes),
        "warnings": list(report.warnings),
        "interrupted": report.interrupted,
        "causes": [
            {"kernel": subject.kernel, **asdict(cause)}
            for subject in report.subjects
            for cause in subject.causes
        ],
        "checks": [_check(summary) for summary in report.checks],
    }
    return {key: all_visible(value) for key, value in whole.items()}


def _subject(subject: Subject) -> dict[str, Any]:
    return {
        "kernel": subject.kernel,
        "contract": subject.contract,
        "judged_by": subject.judged_by,
        "asked": subject.served.asked,
        "served": subject.served.served,
        "declined": [asdict(row) for row in subject.served.declined],
        "provenance": None if subject.producer is None else asdict(subject.producer),
        "cases": [_case(case, found) for case, found in _by_case(subject).items()],
    }


def _by_case(subject: Subject) -> dict[str, list[Finding]]:
    cases: dict[str, list[Finding]] = {}
    for finding in subject.findings:
        cases.setdefault(finding.case, []).append(finding)
    return cases


def _case(case: str, found: list[Finding]) -> dict[str, Any]:
    verdicts = {finding.verdict for finding in found}
    return {
        "id": case,
        "verdict": next(one for one in SEVERITY if one in verdicts).value,
        "margins": {f.check: margin_value(f.margin) for f in found if not math.isnan(f.margin)},
        "errors": {f.check: _accuracy(f.accuracy) for f in found if f.accuracy is not None},
    }


def _accuracy(accuracy: Accuracy) -> dict[str, float | None]:
    numbers = asdict(accuracy.attention) | {"contract": accuracy.contract.rms}
    return {name: margin_value(value) for name, value in numbers.items()}


def _families(report: Report) -> dict[str, int]:
    ids = {finding.case for finding in report.findings}
    return dict(sorted(Counter(case.partition("/")[0] for case in ids).items()))


def _check(summary: Summary) -> dict[str, Any]:
    return {
        "id": summary.id,
        "kernel": summary.kernel,
        "verdict": summary.verdict.value,
        "margin": margin_value(summary.margin),
        "cases": summary.cases,
        "judged": summary.judged,
        "open": summary.open,
        "indeterminate": summary.indeterminate,
        "unsupported": summary.unsupported,
        "expected": summary.expected,
        "failed": summary.failed,
        "families": list(summary.families),
        "follows": list(summary.follows),
        "worst": _finding(summary.worst),
        "repro": summary.repro,
        "errors": None if summary.errors is None else _errors(summary.errors),
    }


def _errors(errors: Errors) -> dict[str, Any]:
    """The fields of ``Errors``; what is infinite as a margin is."""
    return {
        name: margin_value(value) if isinstance(value, float) else value
        for name, value in asdict(errors).items()
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "case": finding.case,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "expected": finding.expected,
        "element": None if finding.worst is None else _element(finding.worst),
        "pattern": None if finding.pattern is None else _pattern(finding.pattern),
    }


def _pattern(pattern: Pattern) -> dict[str, Any]:
    """Its fields, and the same in words."""
    fields = asdict(pattern) | {"error": _number(pattern.error)}
    traits = [trait | {"value": _number(trait["value"])} for trait in fields["traits"]]
    heat = None if pattern.heat is None else _heat(pattern.heat)
    return {**fields, "traits": traits, "heat": heat, "words": in_words(pattern)}


def _heat(heat: Heat) -> dict[str, Any]:
    cells = [[margin_value(margin) for margin in row] for row in heat.cells]
    return asdict(heat) | {"cells": cells}


def _element(element: Element) -> dict[str, Any]:
    return {
        "output": element.output,
        "index": list(element.index),
        "got": _number(element.got),
        "got_hex": element.got_hex,
        "expected": _number(element.expected),
        "expected_hex": element.expected_hex,
        "bound": _number(element.bound),
        "lo": _number(element.lo),
        "hi": _number(element.hi),
        "margin": margin_value(element.margin),
    }


def margin_value(margin: float) -> float | None:
    """A margin as JSON: null for NaN, the largest float64 for infinity."""
    if math.isnan(margin):
        return None
    return min(margin, sys.float_info.max)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
