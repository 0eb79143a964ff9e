"""A made-up package adopts dmverify: its tests pass, and fail with the cause where it is wrong."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dmverify import conformance_tests
from dmverify.ci.judge import Judge, long_rows_first
from dmverify.ci.summary import MARGIN, SERVED, UNJUDGED, Tally
from dmverify.errors import InputError
from tests.tensor_files.making import numbers

HERE = Path(__file__).parent
FILE = HERE / "made_up_kernels" / "conformance.py"
KERNELS = "made_up_kernels.attention"


def run(*words, kernel="Attention", cwd, file=FILE):
    """Pytest in a process of its own, as its author runs it; (exit code, what it printed)."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH"), str(HERE.parents[1])])]
    environment = os.environ | {"KERNEL": f"{KERNELS}:{kernel}", "PYTHONPATH": ":".join(paths)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-p", "dmverify.ci.plugin", "-W", "error"]
    command += ["-c", os.devnull, f"--rootdir={cwd}", "-p", "no:randomly", *words]
    done = subprocess.run(
        [*command, *([str(file)] if file else [])],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_right_kernel_passes_and_its_margins_are_in_the_junit_file(tmp_path):
    code, text = run("--junitxml=junit.xml", cwd=tmp_path)
    assert code == 0, text
    assert "2 of 2 cases served" in text
    assert "largest error from attention" in text
    assert "not judged: stream: there is no GPU here" in text
    assert "subtests passed" not in text
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    found = {
        case.get("name"): {
            p.get("name"): float(p.get("value"))
            for p in case.iter("property")
            if UNJUDGED not in p.get("name")
        }
        for case in cases
    }
    assert {"kernel", "lengths/n17@0", "constant-v/third@0"} == found.keys()
    margins = {name for name in found["lengths/n17@0"] if name.startswith(MARGIN)}
    assert {f"{MARGIN}.{check}" for check in ("o", "dq", "dk", "dv", "row-sum")} <= margins
    assert all(found["lengths/n17@0"][name] <= 1 for name in margins)


def test_a_wrong_kernel_fails_with_its_cause_and_only_what_failed_runs_again(tmp_path):
    code, text = run(kernel="NeverScaled", cwd=tmp_path)
    assert code == 1, text
    assert "likely causes" in text
    assert "softmax scale" in text.partition("likely causes")[2].splitlines()[1]
    assert "dmverify verify made_up_kernels.attention:NeverScaled" in text
    assert "SUBFAILED[dq]" in text
    assert "SUBFAILED[dv]" not in text
    code, text = run("--lf", "-k", "lengths", cwd=tmp_path)  # the fix
    assert code == 0, text
    assert "1 of 1 cases served" in text


def test_a_kernel_that_crashes_fails_and_is_not_skipped(tmp_path):
    code, text = run(kernel="Crashes", cwd=tmp_path)
    assert code == 1, text
    assert "SUBFAILED[run]" in text
    assert "out of memory" in text
    assert "skipped" not in text.splitlines()[-1]


def test_a_kernel_without_its_driver_fails_the_run(tmp_path):
    code, text = run("-rs", kernel="NeedsGpu", cwd=tmp_path)
    assert code == 1, text
    assert "no GPU on this machine" in text
    assert "0 of 2 cases served" in text


def test_options_alone_do_and_a_marker_chooses_a_family(tmp_path):
    words = [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process"]
    words += ["--dmverify-case=lengths/n17@0", "--dmverify-case=constant-v/third@0"]
    code, text = run(*words, "-v", "-m", "dmverify_lengths", cwd=tmp_path, file=None)
    assert code == 0, text
    assert "dmverify::lengths/n17@0 PASSED" in text
    assert "SUBPASSED[dq]" in text  # with -v alone
    assert "constant-v" not in text
    assert "dmverify: attention, device cpu" in text


def properties(path):
    """The properties of each test in a JUnit file."""
    return {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in ElementTree.parse(path).iter("testcase")
    }


def test_tensors_of_a_file_are_tests(tmp_path):
    np.savez(tmp_path / "x.npz", **numbers())
    words = [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process"]
    words += ["--dmverify-inputs=x.npz", "--dmverify-causal=yes", "--junitxml=junit.xml"]
    code, text = run(*words, "--strict-markers", cwd=tmp_path, file=None)
    assert code == 0, text
    assert "1 of 1 cases served" in text
    assert any(name.startswith("tensors/") for name in properties(tmp_path / "junit.xml"))
    code, text = run(*words[:2], "--dmverify-inputs=no-such.npz", cwd=tmp_path, file=None)
    assert code == 4, text
    assert "fix:" in text


def test_a_file_s_tensors_in_one_line_and_the_line_that_repeats_names_it(tmp_path):
    np.savez(tmp_path / "x.npz", **numbers())
    line = f"dmverify.conformance_tests('{KERNELS}:NeverScaled', inputs=['x.npz'], causal=True)"
    (tmp_path / "test_mine.py").write_text(f"import dmverify\ntest_conformance = {line}\n")
    code, text = run(cwd=tmp_path, file=tmp_path / "test_mine.py")
    assert code == 1, text
    repeat = next(line for line in text.splitlines() if "repeat:" in line)
    assert f"--inputs {tmp_path / 'x.npz'} --causal" in repeat


def test_markers_are_known_of_every_family_that_is_asked(tmp_path):
    words = [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process", "--strict-markers"]
    words += ["--dmverify-case=capture/*", "--dmverify-check=o"]
    code, text = run(*words, cwd=tmp_path, file=None)
    assert code == 0, text
    code, text = run(*words, "-m", "dmverify_capture", "--collect-only", cwd=tmp_path, file=None)
    assert "capture/" in text


def test_two_processes_find_what_one_does(tmp_path):
    words = [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process", "-p", "xdist"]
    words += ["--dmverify-case=lengths/n17@0", "--dmverify-case=lengths/n2@0"]
    for number in ("0", "2"):
        file = f"--junitxml={number}.xml"
        code, text = run(*words, "-n", number, file, cwd=tmp_path, file=None)
        assert code == 0, text
    one, two = (properties(tmp_path / f"{number}.xml") for number in ("0", "2"))
    assert one == two
    assert "2 of 2 cases served" in text


def test_processes_begin_with_the_longest_case():
    cases = ("lengths/n1@0", "lengths/n129@0", "lengths/n2@0", "lengths/n17@0")
    suite = conformance_tests("simulation", cases=cases, checks=["o"])
    rows = list(Judge(suite).rows())
    assert [row.name for row in rows] == list(cases)
    assert long_rows_first(rows, 2)[0].name == "lengths/n129@0"


def test_what_pytest_offers_for_other_tests_works_here(tmp_path):
    words = [f"--dmverify-kernel={KERNELS}:NeverScaled", "--dmverify-in-process", "--durations=2"]
    words += ["--dmverify-case=lengths/n17@0", "--dmverify-case=lengths/n2@0"]
    words += ["--dmverify-check=o", "--dmverify-check=dq", "--junitxml=junit.xml"]
    code, text = run(*words, "-x", cwd=tmp_path, file=None)
    assert code == 1, text
    assert "stopping after" in text
    assert "slowest 2 durations" in text
    failing = properties(tmp_path / "junit.xml")["lengths/n17@0"]
    assert {"dmverify.margin.dq", "dmverify.error.dq", "dmverify.repeat.dq"} <= failing.keys()
    assert failing["dmverify.repeat.dq"].startswith("dmverify verify made_up_kernels")
    code, text = run(*words, "-k", "n2 and not n17", cwd=tmp_path, file=None)
    assert "lengths/n17@0" not in text
    code, text = run(*words, "--lf", cwd=tmp_path, file=None)
    assert code == 1, text
    assert "SUBFAILED[o]" not in text


def test_options_of_no_kernel_are_refused_and_not_passed_over(tmp_path):
    words = ["--dmverify-case=lengths/n2@0", "--dmverify-level=full", "--dmverify-causal=no"]
    for word in words:
        code, text = run(word, cwd=tmp_path)
        assert code == 4, text
        assert f"{word.partition('=')[0]} without --dmverify-kernel" in text


@pytest.mark.parametrize(
    "words",
    [
        ["--dmverify-kernel=no_such_module:Kernel"],
        [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process", "--dmverify-case=a/b"],
        [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process", "--dmverify-level=x"],
    ],
)
def test_a_wrong_name_is_a_usage_error_with_its_fix(words, tmp_path):
    code, text = run(*words, cwd=tmp_path, file=None)
    assert code == 4, text
    assert "fix:" in text
    assert "Traceback" not in text


def test_one_text_where_several_are_due_is_refused():
    with pytest.raises(InputError, match=r"write cases=\['lengths/n17@0'\]"):
        conformance_tests("simulation", cases="lengths/n17@0")


def test_tests_of_a_kernel_without_a_name_are_refused():
    with pytest.raises(InputError, match=r"pass 'pkg\.module:object'"):
        conformance_tests(object())


def test_a_case_that_no_check_can_judge_is_skipped_with_the_reason(tmp_path):
    words = [f"--dmverify-kernel={KERNELS}:Attention", "--dmverify-in-process", "-rs"]
    words += ["--dmverify-case=lengths/n2@0", "--dmverify-check=stream"]
    _, text = run(*words, cwd=tmp_path, file=None)
    assert "1 skipped" in text
    assert "there is no GPU here" in text


def test_a_check_that_judged_nothing_is_named_once_with_its_reason():
    tally = Tally()
    tally.add("a", [(f"{UNJUDGED}.dump", "shows nothing"), (f"{UNJUDGED}.ledger", "shows nothing")])
    tally.add("b", [(f"{UNJUDGED}.ledger", "shows nothing"), (f"{MARGIN}.dump", 0.5)])
    assert tally.lines()[-1] == "not judged: ledger: shows nothing"


def test_the_worst_margin_of_every_worker_counts():
    tally = Tally()
    tally.add("a", [(SERVED, 1), (f"{MARGIN}.dq", 0.5), (f"{MARGIN}.row-sum", 0.9)])
    tally.add("b", [(SERVED, 0)])
    tally.add("c", [(SERVED, 1), (f"{MARGIN}.dq", 0.75)])
    first, second, third = tally.lines()
    assert first == "2 of 3 cases served"
    assert second.startswith("row-sum")
    assert "0.75" in third
    assert "c" in third.split()
