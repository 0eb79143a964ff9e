"""Without torch and the other extras: cases, bits, bounds, recordings and a numpy kernel work.

Every extra's modules are blocked by an import hook, in child processes too. What needs one says so.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dmverify
from dmverify.errors import EXTRAS
from tests.tensor_files.making import saved

ROOT = Path(dmverify.__file__).parent.parent
HOOK = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRAS)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
CASE = "lengths/n17@0"


@pytest.fixture
def light(tmp_path):
    """Runs ``python -m dmverify`` with the extras blocked; gives exit code, stdout and stderr."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(map(str, (hook, ROOT, ROOT / "examples")))

    def run(*words, program=("-m", "dmverify")):
        return subprocess.run(
            [sys.executable, *program, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_every_extra_that_an_error_names_can_be_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {extra for extra, _ in EXTRAS.values()} <= project["optional-dependencies"].keys()
    assert not [need for need in project["dependencies"] if need.startswith(tuple(EXTRAS))]


def test_the_hook_blocks(light):
    for module in EXTRAS:
        found = light(program=("-c", f"import {module}"))
        assert f"No module named '{module}'" in found.stderr, module


def test_generate_run_check(light, tmp_path):
    assert light("gen", "cases.jsonl", "--case", CASE, "--contract", "bundled").returncode == 0
    assert light("run", "emulator", "rec", "--cases", "cases.jsonl").returncode == 0
    found = light("check", "rec", "--cases", "cases.jsonl", "--json")
    assert found.returncode == 0
    assert json.loads(found.stdout)["ok"]


def test_a_kernel_without_torch_is_judged(light):
    """In a process of its own, under every condition that there is without torch."""
    found = light("verify", "numpy_attention:Attention", "--case", CASE, "--json")
    assert found.returncode == 0, found.stderr
    checks = {row["id"]: row["verdict"] for row in json.loads(found.stdout)["checks"]}
    assert {checks[name] for name in ("dk", "poison", "own-work")} == {"conforms"}
    wrong = light("verify", "numpy_attention:Shortcut", "--case", CASE, "--check", "delta")
    assert wrong.returncode == 1


def test_bounds_and_bits(light):
    found = light("bounds", "--case", CASE, "--json")
    assert found.returncode == 0
    program = "import numpy; from dmverify.spec.hopper import ex2; print(ex2(numpy.float32([3])))"
    assert light(program=("-c", program)).stdout == "[8.]\n"


def test_what_is_recorded_is_judged(light):
    found = light("verify", "recorded-bundled", "--case", CASE)
    assert found.returncode == 0, found.stderr


def test_lists_leave_out_what_is_not_there(light):
    found = light("list")
    assert found.returncode == 0
    assert "contracts (" in found.stdout
    assert "lemmas left out: [DMV-DEPENDENCY]" in found.stderr


def test_a_page_needs_an_extra_and_its_report_does_not(light):
    assert light("verify", "numpy_attention:Attention", "--case", CASE, "--out", "out").stdout
    found = light("html", "out")
    assert found.returncode == 3
    assert "pip install 'dmverify[report]'" in found.stderr


def test_contracts_of_files(light, tmp_path):
    text = 'format = 1\nbase = "article"\nsummary = "wide"\np_group = 128\n'
    (tmp_path / "mine.toml").write_text(text)
    found = light("contract", "check", "mine.toml", "--json")
    assert json.loads(found.stdout)["nearest"] == "article"


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("verify",), "torch"),
        (("verify", "simulation", "--case", CASE), "torch"),
        (("verify", "torch-math", "--case", CASE), "torch"),  # which has a process of its own
        (("verify", "dmverify.lab.mutants.numeric:ScaleTwice", "--in-process"), "torch"),
        (("replay", CASE), "torch"),
        (("attack", "simulation"), "torch"),
        (("bench",), "torch"),
        (("prove",), "prove"),
        (("list", "lemmas"), "prove"),
        (("study", "worked-row", "--out", "out"), "report"),
    ],
)
def test_what_needs_an_extra_says_which(light, words, extra):
    found = light(*words)
    assert found.returncode == 3
    assert "[DMV-DEPENDENCY]" in found.stderr
    assert f"pip install 'dmverify[{extra}]'" in found.stderr


def test_files_of_tensors_are_read_without_torch_and_a_capture_needs_it(light, tmp_path):
    saved(tmp_path / "x.pt", "pt")
    words = ("verify", "numpy_attention:Attention", "--inputs", "x.pt", "--json")
    found = light(*words)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["ok"]
    found = light(program=("-c", "import dmverify; dmverify.capture"))
    assert "pip install 'dmverify[torch]'" in found.stderr
