"""The example workflows, run as GitHub runs them: red with the cause, green, compared, joined."""

import json
import re
from pathlib import Path

import pytest

import dmverify
from dmverify.ci.documents import read_document
from tests.ci.workflow import Runners

ROOT = Path(dmverify.__file__).parents[1]
EXAMPLES = ROOT / "examples" / "github"
PACKAGE = ROOT / "tests" / "adoption" / "made_up_kernels"
KERNEL, OURS = "my_package.kernels:attention", "made_up_kernels.attention:shipped"
CASES = "--case lengths/n17@0 --case constant-v/third@0"


@pytest.fixture
def github(tmp_path):
    return Runners(ROOT / "action.yml", PACKAGE, tmp_path)


def workflow(name, **changes):
    """An example with the made-up kernel and a few cases in place of its own."""
    text = (EXAMPLES / name).read_text().replace(KERNEL, OURS)
    for old, new in changes.items():
        assert old.replace("_", " ") in text
        text = text.replace(old.replace("_", " "), new)
    return text


def environment(fixed):
    return {"FIXED": fixed, "PYTHONPATH": str(ROOT)}


def cpu():
    return workflow("cpu.yml").replace(
        f"kernel: {OURS}", f"kernel: {OURS}\n          arguments: {CASES} --in-process"
    )


def test_cpu_red_then_green_then_compared_with_the_last_commit(github, tmp_path):
    (red,) = github.run(cpu(), sha="1", environment=environment("")).values()
    assert red.code == 1, red.said
    assert re.search(r"^::error title=.*dq%3A fails", red.said, re.M)
    assert "softmax scale" in red.summary  # the cause
    kept = tmp_path / "run-1" / "artifacts" / "dmverify-report"
    assert {one.name for one in kept.iterdir()} == {"report.json", "junit.xml", "report.html"}
    assert not list((tmp_path / "cache").iterdir())  # nobody compares with a red run

    (green,) = github.run(cpu(), sha="2", environment=environment("yes")).values()
    assert green.code == 0, green.said
    assert "::error" not in green.said
    assert "worse" not in green.summary  # there is nothing to compare with yet

    (same,) = github.run(cpu(), sha="3", environment=environment("yes")).values()
    assert same.code == 0, same.said
    assert "0 worse" in same.summary

    # As if the last commit's margin had been half of today's: today's is worse, and CI says so.
    report = tmp_path / "cache" / "dmverify-3" / "report.json"
    better = json.loads(report.read_text())
    for case in better["subjects"][0]["cases"]:
        case["margins"] = {name: x and x / 2 for name, x in case["margins"].items()}
    for row in better["checks"]:
        row["margin"] = row["margin"] and row["margin"] / 2
    report.write_text(json.dumps(better))
    (worse,) = github.run(cpu(), sha="4", environment=environment("yes")).values()
    assert worse.code == 1, worse.said
    rows = [line for line in worse.summary.splitlines() if line.startswith("| margin")]
    assert rows
    assert all(row.endswith("+100.0% | worse |") for row in rows)


@pytest.mark.parametrize(("fixed", "due"), [("", 1), ("yes", 0)])
def test_a_gpu_job_records_and_a_cpu_job_judges(github, fixed, due):
    text = workflow("gpu.yml").replace(
        "--level smoke --contract bundled", f"{CASES} --contract article"
    )
    jobs = github.run(text, sha="1", environment=environment(fixed))
    assert [key[0] for key in jobs] == ["record", "judge"]
    record, judge = jobs.values()
    assert record.code == 0, record.said
    assert judge.code == due, judge.said
    assert "2 of 2 cases served" in judge.summary
    assert ("dq" in judge.summary.partition("fails")[2]) is bool(due)


def test_a_gpu_job_without_its_gpu_is_red(github):
    text = workflow("gpu.yml").replace(
        "--level smoke --contract bundled", f"{CASES} --contract article"
    )
    text = text.replace(OURS, "made_up_kernels.attention:NeedsGpu")
    jobs = github.run(text, sha="1", environment=environment("yes"))
    assert list(jobs) == [("record",)]  # nothing is left for the other job to take for success
    assert jobs["record",].code == 5
    assert "no GPU on this machine" in jobs["record",].said


@pytest.mark.parametrize(("fixed", "due"), [("", 1), ("yes", 0)])
def test_a_matrix_of_shards_is_one_report(github, tmp_path, fixed, due):
    cases = f"{CASES} --case lengths/n1@0 --case lengths/n2@0"
    text = workflow("matrix.yml").replace("--level full", f"{cases} --in-process --check dq")
    jobs = github.run(text, sha="1", environment=environment(fixed))
    assert [jobs["part", str(n)].code for n in range(4)] == [0] * 4
    whole = jobs["whole",]
    assert whole.code == due, whole.said
    made = tmp_path / "run-1" / "artifacts" / "dmverify-report"
    assert read_document(made).served.asked == 4
