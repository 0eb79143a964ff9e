"""A made-up package adopts dmverify: its tests pass, and fail with the cause where it is wrong."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dmverify import conformance_tests
from dmverify.ci.summary import MARGIN, SERVED, Tally
from dmverify.errors import InputError

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
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    found = {
        case.get("name"): {p.get("name"): float(p.get("value")) for p in case.iter("property")}
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
    assert "constant-v" not in text
    assert "dmverify: attention, device cpu" in text


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
