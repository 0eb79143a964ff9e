"""Stage ``sanitizer``: compute-sanitizer's tools over small cases, each in a process of its own.

| tool | way of ``small`` | must be clean |
|---|---|---|
| memcheck, synccheck | release | yes |
| initcheck | written | yes |
| initcheck | release | no: what it reports there, stage ``poison`` settles |
| racecheck | lanes, headers | yes |
| racecheck | release, warps | no: what it reports there, the order below and ``lanes`` settle |

API errors are left out: the Python binding looks up every driver function that it knows, and a
driver that lacks one answers with an error, which no kernel has to do with.

initcheck follows stores of threads. Operand images and code records are written by bulk stores,
which are the copy engine's, and every read of them is reported as uninitialised. With every buffer
filled by an ordinary kernel first, only reads outside of the buffers can be reported. That no read
meets bytes that only the fill wrote is what stage ``poison`` shows.

racecheck on release reports a warp's read of a slot's scales against the next bulk copy into the
slot, and nothing else: of 100 reports shown on an H200 each pairs LDS with UBLKCP. By the PTX
memory model they are ordered: each lane's read precedes the warp barrier (bar.warp.sync orders
the memory accesses of its lanes), the barrier precedes lane 0's arrival on the slot's mbarrier
(release), the producer's wait for that phase (acquire) precedes the copy. The tool does not carry
the order from a warp barrier on to one lane's arrival: it reports the same with every warp barrier
left in the machine code (``warps``), and nothing where each lane's own arrival follows its read
(``lanes``) or where F and B read no slot (``headers``).

``lanes`` has no warp barrier, and with it goes the order that release has between two stores of the
row's top key (shifted): four lanes hold the same key and store it to one word, and a later window's
store may be another lane's. There a single lane stores, the one that reads the word at the end.
With the warp barriers (``headers``) racecheck has no complaint about four.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import options_of
from dmverify.conformance.kernels.certify import variants_of
from dmverify.lab.acceptance.flag_sets import Job, compile_jobs
from dmverify.lab.acceptance.session import Session
from dmverify.lab.acceptance.small import WAYS, cases

OPTIONS = ("--report-api-errors", "no", "--print-limit", "100")
SECONDS = 180
INFORMATIVE = "256"  # head dim to which tools are kept that fail nothing: they would take longest
CLEAN = {"racecheck": "RACECHECK SUMMARY: 0 hazards displayed"}
NO_ERRORS = "ERROR SUMMARY: 0 errors"
PROGRAM = (sys.executable, "-m", "dmverify", "lab", "small")


class Watch(NamedTuple):
    """One tool over one way of ``small``, and whether a report of it fails the stage."""

    tool: str
    way: str
    strict: bool


WATCHES = (
    Watch("memcheck", "release", True),
    Watch("synccheck", "release", True),
    Watch("initcheck", "written", True),
    Watch("initcheck", "release", False),
    Watch("racecheck", "lanes", True),
    Watch("racecheck", "headers", True),
    Watch("racecheck", "release", False),
    Watch("racecheck", "warps", False),
)


def run(session: Session) -> dict[str, Any]:
    """Runs all tools at once; each prints its summary into its log."""
    path = shutil.which("compute-sanitizer")
    if path is None:
        return {"ok": False, "rows": [], "reason": "compute-sanitizer is not on PATH"}
    compile_jobs(session, jobs_of_ways())
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    running = {}
    for watch in WATCHES:
        command = [path, "--tool", watch.tool, *OPTIONS, *PROGRAM, watch.way]
        command += [] if watch.strict else [INFORMATIVE]
        with _log(session, watch).open("w") as log:
            running[watch] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
    return _collect(session, running)


def jobs_of_ways() -> list[Job]:
    """Builds of all ways: a watched process must not compile."""
    jobs: dict[Job, None] = {}
    for choices in WAYS.values():
        for case_id, contract in cases():
            case = generate(case_id, contract=contract)
            for variant in variants_of(options_of(case, choices), case.problem.head_dim):
                jobs[variant, choices.compiler, choices.flags, choices.edits] = None
    return list(jobs)


def _collect(session: Session, running: dict[Watch, subprocess.Popen[bytes]]) -> dict[str, Any]:
    rows = []
    for watch, process in running.items():
        try:
            code = process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
        text = _log(session, watch).read_text(errors="replace")
        summary = [line for line in text.splitlines() if "SUMMARY" in line]
        clean = code == 0 and any(CLEAN.get(watch.tool, NO_ERRORS) in line for line in summary)
        rows.append(watch._asdict() | {"exit": code, "summary": summary[-1:], "clean": clean})
    return {"ok": all(row["clean"] for row in rows if row["strict"]), "rows": rows}


def _log(session: Session, watch: Watch) -> Any:
    return session.folder / f"sanitizer-{watch.tool}-{watch.way}.log"
