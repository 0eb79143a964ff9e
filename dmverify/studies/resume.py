"""Parts of a study that are kept as soon as they are done, so that a second call goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmverify.files import write_atomically

RUNS = "runs"


def kept(out: Path | None, key: dict[str, Any], make: Callable[[], Any]) -> Any:
    """What ``make`` gives, or gave when it was asked the same before.

    Args:
        out: The study's directory; None keeps nothing.
        key: What was asked, ready for JSON; its first value names the file with those after it.
        make: Gives the part, ready for JSON.
    """
    if out is None:
        return make()
    path = out / RUNS / ("-".join(str(value) for value in key.values()).replace("/", "_") + ".json")
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if found.get("asked") == json.loads(json.dumps(key)):
        return found["part"]
    part = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"asked": key, "part": part}, allow_nan=False) + "\n")
    return part
