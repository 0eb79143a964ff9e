"""Files that appear whole or not at all; every layer that writes may use it.

A reader that looks while a run is interrupted, or while a second one writes, sees the old file or
the new one, never half of one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> Path:
    """Writes a text beside its target, then renames it.

    Args:
        path: The target; its folder exists.
        text: What it holds afterwards, in UTF-8.

    Returns:
        The path.

    Raises:
        OSError: If it cannot be written; the target is then as it was.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        partial.chmod(0o644)  # mkstemp makes it private
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return path
