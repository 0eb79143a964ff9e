"""Expectations: verdicts that are known beforehand, with the reason, and where they hold.

A file is TOML with tables ``[[expect]]``, or JSON lines with one object each:

    [[expect]]
    case = "special/*"          # pattern of case ids, default *
    check = "nan"               # pattern of checks, default *
    verdict = "fails"        # the verdict that is expected
    when = {device = "*H200*"}  # patterns; all must match, default none
    reason = "NaN in padding is not masked, reported to the authors"

| field of ``when`` | compared with |
|---|---|
| kernel, device, driver, compiler, build, source | what the kernel says it is |
| contract | the contract it is judged by |
| version | the version of dmverify |

| what happens | result |
|---|---|
| the verdict is the expected one | the finding counts as expected and fails nothing |
| it conforms although something else was expected | an unexpected pass, which fails |
| another verdict | as without the expectation |
| an expectation applies here and matches no finding | stale: a warning |

The last of several that match decides, so that exceptions follow rules. Patterns are those of a
shell (``*``, ``?``, ``[...]``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dmverify import __version__
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.verdict import FAILURES, Finding, Verdict
from dmverify.conformance.words import printable
from dmverify.errors import InputError
from dmverify.files import TEXT, read_regular
from dmverify.toml import read_toml

CONDITIONS = (
    "kernel",
    "device",
    "driver",
    "compiler",
    "build",
    "source",
    "contract",
    "version",
)
FIELDS = ("case", "check", "verdict", "when", "reason")


@dataclass(frozen=True)
class Expectation:
    """One verdict that is expected.

    Attributes:
        verdict: The verdict.
        reason: Why.
        case: Pattern of case ids.
        check: Pattern of checks.
        when: Patterns by condition, all of which must match.
        where: File and place in it, for messages.
    """

    verdict: Verdict
    reason: str
    case: str = "*"
    check: str = "*"
    when: dict[str, str] = field(default_factory=dict)
    where: str = ""

    def holds_for(self, known: dict[str, str]) -> bool:
        """Whether its conditions are met."""
        return all(fnmatchcase(known[name], pattern) for name, pattern in self.when.items())

    def matches(self, finding: Finding) -> bool:
        """Whether it is about this finding."""
        return fnmatchcase(finding.case, self.case) and fnmatchcase(finding.check, self.check)


def read_expectations(path: Path) -> tuple[Expectation, ...]:
    """Reads a file, TOML unless its name ends in ``.json`` or ``.jsonl``.

    Raises:
        InputError: If it cannot be read or an entry is wrong; the message has its place.
    """
    try:
        text = read_regular(path, largest=TEXT).decode()
        if path.suffix in (".json", ".jsonl"):
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            rows = _tables(read_toml(text))
    except (OSError, ValueError, TypeError, RecursionError, InputError) as error:
        raise InputError(
            f"{path}: {printable(error)}",
            rule="expectations are TOML tables [[expect]], or JSON lines in a file named .jsonl",
            fix="write the file as the docstring of dmverify.conformance.expectations shows",
        ) from error
    return tuple(_expectation(row, f"{path.name}, entry {i}") for i, row in enumerate(rows, 1))


def _tables(document: dict[str, Any]) -> list[Any]:
    unknown = sorted(document.keys() - {"expect"})
    if unknown or not isinstance(document.get("expect", []), list):
        raise ValueError(f"key {unknown[0] if unknown else 'expect'} is no table [[expect]]")
    return list(document.get("expect", []))


def _expectation(row: Any, where: str) -> Expectation:
    if not isinstance(row, dict):
        raise _bad(where, row, "an entry is a table")
    for name in row:
        if name not in FIELDS:
            raise _bad(where, name, f"an entry has {', '.join(FIELDS)}")
    verdicts = {verdict.value: verdict for verdict in Verdict}
    if row.get("verdict") not in list(verdicts):  # a list, unlike a table, may be asked for a list
        raise _bad(where, row.get("verdict"), f"verdict is one of {', '.join(verdicts)}")
    when = row.get("when", {})
    texts = [row.get("reason"), row.get("case", "*"), row.get("check", "*")]
    if not isinstance(when, dict) or not all(isinstance(x, str) for x in (*texts, *when.values())):
        raise _bad(where, row, "reason, case, check and the conditions are texts")
    if not str(texts[0]).strip():
        raise _bad(where, texts[0], "an expectation gives its reason")
    for name in when:
        if name not in CONDITIONS:
            raise _bad(where, name, f"conditions are {', '.join(CONDITIONS)}")
    reason, case, check = (str(text) for text in texts)
    return Expectation(verdicts[row["verdict"]], reason, case, check, when, where)


def _bad(where: str, value: object, rule: str) -> InputError:
    return InputError(f"{value!r} in {where}", rule=rule, fix="correct the entry")


def apply_expectations(report: Report, expectations: tuple[Expectation, ...]) -> Report:
    """The report with expected verdicts marked, unexpected passes failed, stale ones told.

    Args:
        report: What was found.
        expectations: From ``read_expectations``.
    """
    used: set[int] = set()
    held: set[int] = set()
    subjects = []
    for subject in report.subjects:
        known = _known(subject)
        here = {i: e for i, e in enumerate(expectations) if e.holds_for(known)}
        held |= here.keys()
        found = []
        for finding in subject.findings:
            matching = [i for i, e in here.items() if e.matches(finding)]
            used |= set(matching)
            last = expectations[matching[-1]] if matching else None
            found.append(finding if last is None else _judged(finding, last))
        subjects.append(replace(subject, findings=tuple(found)))
    stale = [
        f"stale expectation ({expectations[i].where}): no finding is of case "
        f"{expectations[i].case!r} and check {expectations[i].check!r}"
        for i in sorted(held - used)
    ]
    return replace(report, subjects=tuple(subjects), warnings=(*report.warnings, *stale))


def failing(subject: Subject, expectations: tuple[Expectation, ...]) -> Callable[[Finding], bool]:
    """What tells whether a finding fails a run: those that are expected to fail do not.

    Args:
        subject: Whose findings they are.
        expectations: From ``read_expectations``.
    """
    known = _known(subject)
    here = [e for e in expectations if e.holds_for(known)]

    def fails(finding: Finding) -> bool:
        matching = [e for e in here if e.matches(finding)]
        judged = _judged(finding, matching[-1]) if matching else finding
        return judged.verdict in FAILURES and not judged.expected

    return fails


def _judged(finding: Finding, expectation: Expectation) -> Finding:
    if finding.verdict is expectation.verdict:
        return replace(finding, expected=expectation.reason)
    if finding.verdict is Verdict.CONFORMS:
        said = f"unexpected pass: {expectation.verdict.value!r} was expected"
        reason = f"{said} ({expectation.where}: {expectation.reason})"
        return replace(finding, verdict=Verdict.FAILS, reason=reason)
    return finding


def _known(subject: Subject) -> dict[str, str]:
    """What conditions are compared with; empty where nothing is known."""
    producer = subject.producer
    names = [name for name in CONDITIONS if name not in ("contract", "version")]
    said = {name: str(getattr(producer, name, "")) if producer else "" for name in names}
    said["kernel"] = said["kernel"] or subject.kernel
    return {**said, "contract": subject.contract, "version": __version__}
