"""Files that appear whole or not at all; every layer that writes may use it.

A reader that looks while a run is interrupted, or while a second one writes, sees the old file or
the new one, never half of one.

| the target is | then |
|---|---|
| a plain file, or not there | a file written beside it takes its name |
| a link | it stays; what it names is treated by this table |
| where stdout or stderr go, such as ``/dev/stdout`` | the text goes out there, after what has |
| a device or a FIFO, such as ``/dev/null`` | the text is written into it, which is not atomic |
| a directory | an error |
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from dmverify.errors import InputError

STREAMS = (1, 2)  # descriptors of stdout and stderr


def write_atomically(path: Path, text: str) -> Path:
    """Writes a text beside its target, then renames it.

    Args:
        path: The target; its folder exists.
        text: What it holds afterwards, in UTF-8.

    Returns:
        The path.

    Raises:
        InputError: If it is a directory.
        UnicodeEncodeError: If the text holds a lone surrogate.
        OSError: If it cannot be written; a plain file is then as it was.
    """
    content, found = text.encode("utf-8"), _status(path)
    if found is None:
        _replace(path.resolve(), content)
    elif stat.S_ISDIR(found.st_mode):
        raise InputError(
            path, rule="what is written is a file, and this is a directory", fix="name a file in it"
        )
    elif (stream := _stream(found)) is not None:
        _send(os.dup(stream), content)
    elif stat.S_ISREG(found.st_mode):
        _replace(path.resolve(), content)
    else:  # renamed onto, /dev/null would become a file
        _send(os.open(path, os.O_WRONLY), content)
    return path


def _status(path: Path) -> os.stat_result | None:
    """What a path names, links followed; None if there is nothing, or a link to nothing."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _stream(found: os.stat_result) -> int | None:
    """The standard stream that goes to this very file, if one does.

    Opened a second time, a file that stdout goes to would be written over from its start.
    """
    for descriptor in STREAMS:
        with suppress(OSError):  # a stream that is closed
            if os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


def _send(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    partial = Path(name)
    try:
        _send(handle, content)
        partial.chmod(0o644)  # mkstemp makes it private
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
