"""Processes and a Ray cluster: the report of one process, whatever becomes of workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dmverify
from dmverify.ci.documents import read_document
from dmverify.conformance.spread.plan import FILE

ROOT = Path(dmverify.__file__).parents[1]
HERE = Path(__file__).parent
SIZES = "batch=1,heads=1,kv_heads=1,keys=8,head_dim=32,causal=0"
CASES = [f"constant-v/tenth,queries={n},{SIZES}@{seed}" for seed in range(8) for n in (3, 5)]
DEADLY = f"constant-v/tenth,queries=7,{SIZES}@0"


@pytest.fixture
def run(tmp_path):
    """Runs a program with the kernels on its path; gives its exit code and what it said."""
    paths = os.pathsep.join(map(str, (HERE / "kernels", ROOT / "examples", ROOT)))
    environment = os.environ | {"PYTHONPATH": paths, "FOLDER_OF_TEST": str(tmp_path)}
    environment.pop("RAY_ADDRESS", None)

    def ran(*words):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return ran


def verify(kernel, cases, *words):
    named = [word for case in cases for word in ("--case", case)]
    return ["-m", "dmverify", "verify", kernel, *named, "--in-process", *words]


@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_a_killed_worker_loses_nothing(run, tmp_path, executor):
    code, said = run(*verify("numpy_attention:Attention", CASES, "--out", "plain"))
    assert code == 0, said
    code, said = run(
        *verify("ending:DiesOnce", CASES, "--executor", executor, "-j", "2", "--out", "ray")
    )
    assert code == 0, said
    assert (tmp_path / "died").exists()
    plain, spread = (tmp_path / name / "report.json" for name in ("plain", "ray"))
    name = "numpy_attention:Attention"
    assert spread.read_text().replace("ending:DiesOnce", name) == plain.read_text()
    kept = (tmp_path / "ray" / FILE).read_bytes()
    again = verify("ending:DiesOnce", CASES, "--executor", executor, "-j", "2", "--out", "ray")
    code, said = run(*again, "--resume")  # everything is there: nothing is asked, nothing changes
    assert code == 0, said
    assert (tmp_path / "ray" / FILE).read_bytes() == kept
    assert spread.read_text().replace("ending:DiesOnce", name) == plain.read_text()


@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_a_case_that_kills_every_worker_is_one_error(run, tmp_path, executor):
    cases = [*CASES[:3], DEADLY, *CASES[3:]]
    code, said = run(
        *verify("ending:Deadly", cases, "--executor", executor, "-j", "2", "--out", "ray")
    )
    assert code == 3, said
    report = read_document(tmp_path / "ray")
    verdicts = {case.id: case.verdict for case in report.subjects[0].cases}
    assert verdicts.pop(DEADLY) == "error"
    assert verdicts == dict.fromkeys(CASES, "conforms")


def test_a_kernel_on_gpus_has_each_its_own_on_every_host(run, tmp_path):
    code, said = run("-W", "error", HERE / "two_hosts.py", "ending:OnGpu", "ray", *CASES)
    assert code == 0, said
    seen = [path.name.split() for path in tmp_path.iterdir() if path.name[0].isdigit()]
    devices, kernels, workers = zip(*seen, strict=True)
    assert set(devices) <= {"0", "1"}  # one each, of its host's two
    assert len(set(kernels)) == len(seen)  # none that moved to another GPU
    assert not set(kernels) & set(workers)
    assert read_document(tmp_path / "ray").ok


def test_wrong_requests_are_told_before_anything_is_judged(run):
    code, said = run(*verify("numpy_attention:Nothing", CASES, "--executor", "ray"))
    assert code == 3
    assert "numpy_attention:Nothing" in said
    apart = [word for word in verify("numpy_attention:Attention", CASES) if word != "--in-process"]
    code, said = run(*apart, "--executor", "ray", "--gpus", 64)
    assert code == 2
    assert "gpus=64 of a cluster with" in said
    code, said = run(*verify("numpy_attention:Attention", CASES, "--gpus", 1))
    assert code == 2
    assert "--executor ray" in said
