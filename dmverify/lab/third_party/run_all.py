"""Asks all peers side by side, each in a process of its own, so that a fault spares the others.

The answers' JSON of all peers goes into one file ``peers.json`` with the logs; tensors stay in a
file each.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import MappingProxyType

from dmverify.lab.third_party.kernels import PEERS

_HERE = "dmverify.lab.third_party.kernels"
FACTORIES = MappingProxyType(
    {
        **PEERS,
        "torch-math": f"{_HERE}.torch_sdpa:torch_math_gpu",
        "cudnn-fp8-deterministic": f"{_HERE}.cudnn_fp8:cudnn_fp8_deterministic",
    }
)
"""Who is asked on a GPU."""

PROGRAM = (sys.executable, "-m", "dmverify", "lab", "ask-one")
HEAD_DIM = MappingProxyType({"cudnn-fp8": 128, "cudnn-fp8-deterministic": 128, "flash-3-fp8": 128})
USUAL_HEAD_DIM = 64
STAGES = MappingProxyType({"cudnn-fp8-deterministic": ("repeats",)})
"""Who is not asked everything."""
LOG = 4000  # characters of a log that are kept


def run_all(names: list[str], out: Path, seconds: int) -> int:
    """Runs every peer; 3 if one failed or was stopped.

    Args:
        names: Keys of ``FACTORIES``.
        out: Where the answers go.
        seconds: After which what still runs is stopped; its finished stages are kept.
    """
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp())
    end = time.monotonic() + seconds
    running = {name: _started(name, work) for name in names}
    status = {name: _wait(process, end) for name, process in running.items()}
    gathered = {name: _gathered(name, work, out) for name in names}
    logs = {name: (work / f"{name}.log").read_text()[-LOG:] for name in names}
    text = {"status": status, "answers": gathered, "logs": logs}
    (out / "peers.json").write_text(json.dumps(text, indent=1))
    for name in names:
        sys.stderr.write(f"{name}: {status[name]}; {logs[name][-600:]}\n")
    return 0 if not any(status.values()) else 3


def _started(name: str, work: Path) -> subprocess.Popen[bytes]:
    command = [*PROGRAM, str(work / name), name]
    with (work / f"{name}.log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _wait(process: subprocess.Popen[bytes], end: float) -> int:
    try:
        return process.wait(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        return -1


def _gathered(name: str, work: Path, out: Path) -> object:
    """Moves the tensors to ``out``; gives the JSON."""
    found = list((work / name).glob("*.json")) if (work / name).is_dir() else []
    if not found:
        return None
    shutil.copy(found[0].with_suffix(".safetensors"), out / f"{name}.safetensors")
    answers: object = json.loads(found[0].read_text())
    return answers
