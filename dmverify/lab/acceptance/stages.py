"""``dmverify lab acceptance [--seconds S] OUT [STAGE ...]``.

Without stages all run, in the table's order. A stage that an earlier run into the same folder has
passed is not repeated, and ``combinations`` goes on where it stopped. Exit code 1 if one fails, or
if the seconds were used up before all had run to their end; the last line then says so.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dmverify.lab.acceptance.session import Session, open_pool
from dmverify.late import object_at

HERE = "dmverify.lab.acceptance"
STAGES = {
    "build": "flag_sets:compile_default",
    "tensor-core": "large:tensor_core",
    "combinations": "combinations:run",
    "tails": "combinations:record_long",
    "pairs": "pairs:run",
    "repeats": "repeats:run",
    "poison": "survivors:run",
    "api": "api:run",
    "flags": "flag_sets:run",
    "dump": "dumped:run",
    "residuals": "residuals:run",
    "longest": "large:longest",
    "large": "large:large",
    "sanitizer": "sanitizer:run",
}
SHOWN = 200  # characters of a value in the table


def accept(out: Path, stages: Sequence[str], *, seconds: float, say: Callable[[str], None]) -> bool:
    """Runs stages and says a line of each.

    Args:
        out: Folder of logs and recordings.
        stages: Keys of ``STAGES``; all of them if none is named.
        seconds: After which nothing new is started.
        say: Called with each line.

    Returns:
        Whether all have passed, now or before.
    """
    out.mkdir(parents=True, exist_ok=True)
    session = Session(out, open_pool(), seconds)
    good, left = True, []
    for stage in stages or STAGES:
        if session.done(stage):
            say(f"{stage:13} passed before")
            continue
        if session.over:
            left.append(stage)
            continue
        began = session.elapsed
        result = _run(session, stage)
        if session.elapsed > session.seconds and not result["ok"]:
            result["cut"] = f"the {session.seconds:.0f} seconds were used up in this stage"
            left.append(stage)
        session.log(stage, result)
        good &= bool(result["ok"])
        words = "passed" if result["ok"] else "FAILED"
        say(f"{stage:13} {words} {session.elapsed - began:6.1f} s  {_short(result)}")
    session.pool.shutdown()
    if left:
        say(f"NOT COMPLETE: {session.seconds:.0f} seconds were used up before {', '.join(left)}")
    return good and not left


def _run(session: Session, stage: str) -> dict[str, Any]:
    """One stage; an exception is its failure, and the next stage still runs."""
    try:
        function: Callable[[Session], dict[str, Any]] = object_at(f"{HERE}.{STAGES[stage]}")
        return function(session)
    except Exception as error:
        return {"ok": False, "error": repr(error), "traceback": traceback.format_exc()}


def _short(result: dict[str, Any]) -> str:
    words = [f"{key}={value}" for key, value in result.items() if key not in ("ok", "traceback")]
    return "; ".join(word[:SHOWN] for word in words)
