"""Parts of a study that are kept as soon as they are done, so that a second call goes on."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dmverify.files import write_atomically

RUNS = "runs"


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Whether the lock of a file is this process's; it ends with the process, however that ends.

    Args:
        path: Path of the lock, in a folder that there is; the file stays.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


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
