"""Which specification this is: a hash of its text, which every recording holds."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from dmverify import spec


@cache
def specification_hash() -> str:
    """SHA-256 over the text of every module of the specification, and over its tables."""
    folder = Path(spec.__path__[0])
    hashed = hashlib.sha256()
    for path in sorted(path for kind in ("*.py", "*.npz", "*.toml") for path in folder.rglob(kind)):
        hashed.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return hashed.hexdigest()
