"""``-j N``: several processes judge, each with a kernel, and the report is that of one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dmverify
from dmverify.conformance import gpus

ROOT = Path(dmverify.__file__).parents[1]
KERNELS = Path(__file__).parent / "kernels"
SIZES = "batch=1,heads=1,kv_heads=1,keys=8,head_dim=32,causal=0"
CASES = tuple(f"constant-v/tenth,queries={n},{SIZES}@{seed}" for seed in range(6) for n in (3, 5))


@pytest.fixture(autouse=True)
def _kernels(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(KERNELS), str(ROOT / "examples"), *sys.path])
    monkeypatch.setattr(gpus, "DEVICES", tmp_path / "dev")
    monkeypatch.setenv("FOLDER_OF_TEST", str(tmp_path))


def processes(folder):
    """Ids of the processes in which the kernel was, each with that of its parent."""
    return {tuple(one.name.split()[-2:]) for one in folder.iterdir() if one.name[-1].isdigit()}


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("numpy_attention:Attention", {}),
        ("numpy_attention:Shortcut", {"reproduce": True}),
        ("numpy_attention:Shortcut", {"stop": True}),
        ("numpy_attention:Attention", {"timeout": 60.0, "checks": ["o", "dq"]}),
        ("ending:Deadly", {"cases": (*CASES, f"constant-v/tenth,queries=7,{SIZES}@0")}),
        ("ending:Declines", {}),
    ],
)
def test_the_report_is_the_same_byte_for_byte(kernel, options):
    options = {"cases": CASES} | options
    one, several = (dmverify.verify(kernel, jobs=jobs, **options) for jobs in (1, 3))
    assert several.to_json() == one.to_json()
    assert several.to_junit() == one.to_junit()


def test_each_process_has_a_kernel_unless_the_machine_shows_a_gpu(tmp_path):
    dmverify.verify("ending:OnGpu", cases=CASES, jobs=2, in_process=True)
    assert len(processes(tmp_path)) == 2
    assert str(os.getpid()) not in {own for own, _ in processes(tmp_path)}
    for one in tmp_path.iterdir():
        one.unlink()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    dmverify.verify("ending:OnGpu", cases=CASES, jobs=2, in_process=True)
    assert {own for own, _ in processes(tmp_path)} == {str(os.getpid())}


def test_the_processes_leave_no_files(tmp_path):
    """A kernel's process has a folder, within one of the pool's, which goes however they end."""
    room = tmp_path / "room"
    room.mkdir()
    words = ["verify", "numpy_attention:Attention", "-j", "2"]
    words += [word for case in CASES for word in ("--case", case)]
    done = subprocess.run(
        [sys.executable, "-m", "dmverify", *words],
        env=os.environ | {"TMPDIR": str(room), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(room.iterdir()) == []


def test_a_kernel_and_its_judge_have_one_blas_thread(monkeypatch):
    """Whatever the number of cores; a number that the environment names is kept."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    case = CASES[:1]
    for jobs in (1, 2):
        report = dmverify.verify("ending:Threads", cases=case, checks=["o"], jobs=jobs)
        assert report.subjects[0].producer.device == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    report = dmverify.verify("ending:Threads", cases=case, checks=["o"])
    assert report.subjects[0].producer.device == "3"
