"""``python -m dmverify.conformance.peers ask OUT`` and ``check OUT``: see the package."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from dmverify.conformance.kernels.peers import PEERS
from dmverify.conformance.kernels.peers.peer import Peer

FACTORIES = MappingProxyType(
    {
        **PEERS,
        "torch-math": "dmverify.conformance.kernels.peers.torch_sdpa:torch_math_gpu",
        "cudnn-fp8-deterministic": (
            "dmverify.conformance.kernels.peers.cudnn_fp8:cudnn_fp8_deterministic"
        ),
    }
)
"""Who is asked on a GPU."""

PACKAGE = "dmverify.conformance.peers"
HEAD_DIM = MappingProxyType({"cudnn-fp8": 128, "cudnn-fp8-deterministic": 128, "flash-3-fp8": 128})
USUAL_HEAD_DIM = 64
STAGES = MappingProxyType({"cudnn-fp8-deterministic": ("repeats",)})
"""Who is not asked everything."""


def main() -> int:
    """Parses the command line and runs it."""
    parser = argparse.ArgumentParser(prog="python -m dmverify.conformance.peers")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("ask", "ask-one", "check"):
        sub = verbs.add_parser(verb)
        sub.add_argument("out", type=Path)
        if verb == "ask-one":
            sub.add_argument("peer", choices=sorted(FACTORIES))
        if verb == "ask":
            sub.add_argument("--seconds", type=int, default=150)
            sub.add_argument("--peers", default=",".join(FACTORIES))
    args = parser.parse_args()
    if args.verb == "ask-one":
        return _ask_one(args.peer, args.out)
    if args.verb == "ask":
        return _ask_all(args.peers.split(","), args.out, args.seconds)
    from dmverify.conformance.peers.checking import main as check

    return check(args.out)


def make(name: str) -> Peer:
    """The peer of a name, as it is asked on a GPU."""
    module, _, factory = FACTORIES[name].partition(":")
    peer: Peer = getattr(import_module(module), factory)()
    return peer


def _ask_one(name: str, out: Path) -> int:
    from dmverify.conformance.peers.asking import ask

    peer = make(name)
    missing = peer.missing()
    if missing:
        sys.stderr.write(f"{name}: {missing}\n")
        return 5
    stages = STAGES.get(name, ())
    book = ask(peer, HEAD_DIM.get(name, USUAL_HEAD_DIM), out, stages=stages)
    errors = sum(bool(entry.error) for entry in book.entries)
    sys.stderr.write(f"{name}: {len(book.entries)} asked, {errors} errors, {book.made_by}\n")
    return 0


def _ask_all(names: list[str], out: Path, seconds: int) -> int:
    """Each peer in a process of its own, side by side: a fault of one spares the others."""
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp())
    running = {}
    for name in names:
        log = (work / f"{name}.log").open("w")
        command = [sys.executable, "-m", PACKAGE, "ask-one"]
        running[name] = subprocess.Popen(
            [*command, str(work / name), name], stdout=log, stderr=subprocess.STDOUT
        )
    end = time.monotonic() + seconds
    status = {name: _wait(process, end) for name, process in running.items()}
    gathered = {name: _gathered(name, work, out) for name in names}
    logs = {name: (work / f"{name}.log").read_text()[-4000:] for name in names}
    text = {"status": status, "answers": gathered, "logs": logs}
    (out / "peers.json").write_text(json.dumps(text, indent=1))
    for name in names:
        sys.stderr.write(f"{name}: {status[name]}; {logs[name][-600:]}\n")
    return 0 if not any(status.values()) else 3


def _wait(process: subprocess.Popen[bytes], end: float) -> int:
    try:
        return process.wait(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        return -1


def _gathered(name: str, work: Path, out: Path) -> object:
    """Moves the tensors to ``out``; the JSON goes into the common file."""
    found = list((work / name).glob("*.json")) if (work / name).is_dir() else []
    if not found:
        return None
    tensors = found[0].with_suffix(".safetensors")
    shutil.copy(tensors, out / f"{name}.safetensors")
    answers: object = json.loads(found[0].read_text())
    return answers


if __name__ == "__main__":
    sys.exit(main())
