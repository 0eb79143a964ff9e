"""Stage ``sanitizer``: compute-sanitizer's tools over small cases, each in a process of its own.

What the tools do not model shows up as reports, and the stage then fails rather than hide them:

- initcheck does not see what bulk stores write, so it calls the operand images uninitialised;
  the poisoned runs of ``combinations`` are the check that holds there
- racecheck takes lanes of a warp apart: where ptxas drops a ``__syncwarp`` because the warp has
  converged, a read by one lane and the arrival of another look unordered
- errors of API calls are left out: the Python binding looks driver functions up by trial
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

from dmverify.conformance.acceptance.session import Session

TOOLS = ("memcheck", "initcheck", "synccheck", "racecheck")
OPTIONS = ("--report-api-errors", "no", "--print-limit", "100")
SECONDS = 150
CLEAN = {"racecheck": "RACECHECK SUMMARY: 0 hazards displayed"}
NO_ERRORS = "ERROR SUMMARY: 0 errors"
PROGRAM = "dmverify.conformance.acceptance.small"


def run(session: Session) -> dict[str, Any]:
    """All tools at once; each prints its summary into its log."""
    path = shutil.which("compute-sanitizer")
    if path is None:
        return {"ok": False, "rows": [], "reason": "compute-sanitizer is not on PATH"}
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    running = {}
    for tool in TOOLS:
        log = (session.folder / f"sanitizer-{tool}.log").open("w")
        command = [path, "--tool", tool, *OPTIONS, sys.executable, "-m", PROGRAM]
        running[tool] = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    return _collect(session, running)


def _collect(session: Session, running: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for tool, process in running.items():
        try:
            code = process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
        text = (session.folder / f"sanitizer-{tool}.log").read_text(errors="replace")
        summary = [line for line in text.splitlines() if "SUMMARY" in line]
        clean = code == 0 and any(CLEAN.get(tool, NO_ERRORS) in line for line in summary)
        rows.append({"tool": tool, "exit": code, "summary": summary[-1:], "clean": clean})
    return {"ok": all(row["clean"] for row in rows), "rows": rows}
