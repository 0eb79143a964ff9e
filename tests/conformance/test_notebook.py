"""What a notebook shows: tables of whole rows, and no word from outside that steers the page."""

from html.parser import HTMLParser

import numpy as np
import pytest

from dmverify import bounds, verify
from dmverify.conformance.families import generate
from dmverify.conformance.report.notebook import report_html, table_html
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.report.rows import CHECK_HEADS, ERROR_HEADS, FAILURE_HEADS
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.spec.contracts import get_contract

CASE = "constant-v/tenth,batch=1,heads=1,kv_heads=1,queries=3,keys=4,head_dim=32,causal=0@0"


class Tables(HTMLParser):
    """Reads tables back; anything left open, or any other tag, is an error."""

    ALLOWED = ("table", "caption", "thead", "tbody", "tr", "th", "td", "p", "b")

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in self.ALLOWED, tag
        assert set(dict(attrs)) <= {"scope"}
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        else:
            self.words.append(data)

    def under(self, heads):
        """The rows of the table with these heads, or None."""
        found = [table for table in self.tables if tuple(table[0]) == tuple(heads)]
        assert all(len(row) == len(heads) for table in found for row in table)
        return found[0][1:] if found else None


def judged(kernel):
    return verify(kernel, cases=[CASE], in_process=True)


def test_a_report_that_conforms():
    report = judged("numpy_attention:Attention")
    shown = Tables(report._repr_html_())
    assert [row[0] for row in shown.under(CHECK_HEADS)] == [one.id for one in report.checks]
    assert {row[0] for row in shown.under(ERROR_HEADS)} >= {"o", "dq"}
    assert shown.under(FAILURE_HEADS) is None
    assert "numpy_attention:Attention: conforms" in "".join(shown.words)


def test_a_report_that_does_not_says_where_and_how_to_repeat_it():
    report = judged("numpy_attention:Shortcut")
    shown = Tables(report._repr_html_())
    rows = {row[0]: row for row in shown.under(FAILURE_HEADS)}
    assert rows["delta"][1] == CASE
    assert rows["delta"][4] == next(one.repro for one in report.checks if one.id == "delta")
    assert "does not conform" in "".join(shown.words)


def test_words_from_outside_are_shown_and_do_nothing():
    hostile = "<script>alert(1)</script>&amp;\x1b[2J\"'"
    finding = Finding("run", f"made/{hostile}@0", Verdict.ERROR, reason=hostile)
    report = Report((Subject(hostile, hostile, hostile, (finding,)),), "smoke", 0, (hostile,))
    shown = Tables(report_html(report))  # which refuses a tag of theirs
    assert shown.under(FAILURE_HEADS)[0][3] == hostile.replace("\x1b", " ")


def test_bounds_are_a_table():
    case = generate(CASE, contract="article")
    report = bounds(get_contract("article"), case.problem, inputs=case.inputs)
    (table,) = Tables(report._repr_html_()).tables
    assert len(table) == 1 + len(report.rows)
    assert np.all([len(row) == 6 for row in table])


def test_a_table_without_rows_is_nothing():
    assert table_html(("a",), ()) == ""


def test_the_reader_of_tables_refuses_what_is_broken():
    with pytest.raises(AssertionError):
        Tables("<table><script></script></table>")
    with pytest.raises(AssertionError):
        Tables(table_html(("a", "b"), [("1",)])).under(("a", "b"))
