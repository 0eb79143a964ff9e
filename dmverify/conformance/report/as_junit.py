"""A report as JUnit XML, which CI servers read: a suite a check, a test case a case.

JUnit has three outcomes beside success, so the verdict is the ``type`` of each of them:

| verdict | outcome |
|---|---|
| fails | failure |
| error, timeout | error |
| unsupported, indeterminate, and what failed as expected | skipped, with the reason |

Of every subject a suite ``served`` of one test case has the properties ``asked`` and ``served``:
success if all cases were served, else skipped, and a failure if they are fewer than required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from dmverify.conformance.report.phrases import in_words
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.conformance.words import visible

if TYPE_CHECKING:
    from dmverify.conformance.report.report import Report, Subject

TAGS = {
    Verdict.FAILS: "failure",
    Verdict.ERROR: "error",
    Verdict.TIMEOUT: "error",
    Verdict.UNSUPPORTED: "skipped",
    Verdict.INDETERMINATE: "skipped",
}


def as_junit(report: Report) -> str:
    """The report as an XML document."""
    root = ElementTree.Element("testsuites", name=f"dmverify {report.kernel}")
    for subject in report.subjects:
        for check in dict.fromkeys(finding.check for finding in subject.findings):
            _suite(root, subject, check)
        _served(root, subject, too_few=subject in report.too_few)
    for element in root.iter():  # XML has no control characters, and no halves of characters
        element.attrib = {key: visible(value) for key, value in element.attrib.items()}
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(root: ElementTree.Element, subject: Subject, check: str) -> None:
    found = [finding for finding in subject.findings if finding.check == check]
    counts = {tag: sum(_tag(f) == tag for f in found) for tag in TAGS.values()}
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=f"{subject.kernel}.{check}",
        tests=str(len(found)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
    )
    for finding in found:
        case = ElementTree.SubElement(suite, "testcase", classname=check, name=finding.case)
        if tag := _tag(finding):
            part = ElementTree.SubElement(
                case, tag, type=finding.verdict.value, message=_message(finding)
            )
            words = in_words(finding.pattern) if finding.pattern else ""
            lines = (str(finding.worst or ""), words, subject.repro(finding))
            part.text = "\n".join(visible(line) for line in lines if line)


def _served(root: ElementTree.Element, subject: Subject, *, too_few: bool) -> None:
    found = subject.served
    tag = "failure" if too_few else "skipped" if found.served < found.asked else ""
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    said = {name: str(int(tag == one)) for name, one in counts.items()}
    said |= {"name": f"{subject.kernel}.served", "tests": "1"}
    suite = ElementTree.SubElement(root, "testsuite", said)
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (("asked", found.asked), ("served", found.served)):
        ElementTree.SubElement(properties, "property", name=key, value=str(value))
    case = ElementTree.SubElement(suite, "testcase", classname="served", name="cases served")
    if tag:
        verdict = Verdict.FAILS if too_few else Verdict.UNSUPPORTED
        part = ElementTree.SubElement(case, tag, type=verdict.value, message=f"served {found}")
        rows = (visible(f"{row.family}: {row.reason}") for row in found.declined)
        part.text = "".join(f"{row}\n" for row in rows)


def _tag(finding: Finding) -> str:
    """The outcome, empty for success."""
    if finding.expected and finding.verdict is not Verdict.CONFORMS:
        return "skipped"
    return TAGS.get(finding.verdict, "")


def _message(finding: Finding) -> str:
    said = finding.reason or f"margin {finding.margin:.3g}"
    return f"expected ({finding.expected}): {said}" if finding.expected else said
