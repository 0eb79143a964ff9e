"""``report.json`` keeps to its published schema, and the schema is the one that is published."""

import json
from pathlib import Path

import msgspec
import pytest

import dmverify
from dmverify.conformance.report.document import Document, schema

PUBLISHED = Path(dmverify.__file__).parents[1] / "docs" / "schemas" / "report.json"
NUMERIC = "dmverify.lab.mutants.numeric"


def written(report, tmp_path):
    report.write(tmp_path)
    return (tmp_path / "report.json").read_bytes()


def test_the_published_schema_is_this_one():
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == json.loads(json.dumps(schema()))


@pytest.mark.parametrize("kernel", ["simulation", f"{NUMERIC}:doubled", f"{NUMERIC}:negated"])
def test_a_report_keeps_to_it(kernel, tmp_path):
    report = dmverify.verify(kernel, cases=["lengths/n17@0", "special/q-nan@0"], in_process=True)
    document = msgspec.json.decode(written(report, tmp_path), type=Document)
    (subject,) = document.subjects
    assert document.ok is report.ok
    assert document.coverage == {"lengths": 1, "special": 1}
    assert [case.id for case in subject.cases] == ["lengths/n17@0", "special/q-nan@0"]
    assert subject.cases[0].margins["dq"] == report.subjects[0].findings[2].margin
    assert json.loads(document.contracts["article"])["delta"] == "matched"
    assert (document.verdict == "fails") is (kernel != "simulation")


def test_a_field_that_nobody_published_is_noticed(tmp_path):
    report = dmverify.verify("simulation", cases=["lengths/n1@0"], in_process=True, checks=["o"])
    changed = json.loads(written(report, tmp_path)) | {"more": 1}
    with pytest.raises(msgspec.ValidationError, match="more"):
        msgspec.convert(changed, Document)
