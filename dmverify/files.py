"""Files that appear whole or not at all, and files that are read up to a size.

A reader that looks while a run is interrupted, or while a second one writes, sees the old file or
the new one, never half of one.

| the target is | then |
|---|---|
| a plain file, or not there | a file written beside it takes its name |
| a link | it stays; what it names is treated by this table |
| where stdout or stderr go, such as ``/dev/stdout`` | the text goes out there, after what has |
| a device or a FIFO, such as ``/dev/null`` | the text is written into it, which is not atomic |
| a directory | an error |

Whatever is read from a path that somebody else made is read by ``read_regular``: a FIFO would keep
the reader waiting, and a device, or a file with a hole of terabytes, has no end.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from dmverify.errors import InputError

STREAMS = (1, 2)  # descriptors of stdout and stderr
PART = ".part"  # ends the name of what is being written
CHUNK = 1 << 20  # bytes
TEXT = 1 << 24  # bytes of the largest list or settings file that anybody needs
UNLIMITED = 1 << 62  # bytes; no file has as many


def read_regular(path: Path, *, largest: int, follow: bool = True) -> bytes:
    """The content of a plain file.

    Args:
        path: The file.
        largest: Bytes that it may have.
        follow: Whether it may be a link to a plain file.

    Raises:
        InputError: If it is of another kind, or larger.
        OSError: If it cannot be opened or read.
    """
    return b"".join(chunks(path, largest=largest, follow=follow))


def chunks(path: Path, *, largest: int, follow: bool = True) -> Iterator[bytes]:
    """``read_regular`` bit by bit, for what need not be held at once."""
    with open_regular(path, largest=largest, follow=follow) as file:
        left = largest
        while chunk := file.read(min(CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:  # it grew after it was measured
                raise _too_large(path, f"more than {largest}", largest)
            yield chunk


@contextmanager
def open_regular(path: Path, *, largest: int = UNLIMITED, follow: bool = True) -> Iterator[FileIO]:
    """A plain file, open for reading, unbuffered; for whoever reads parts of a large one.

    Raises:
        InputError: If it is of another kind, or larger.
        OSError: If it cannot be opened.
    """
    _require_regular(path, path.stat() if follow else path.lstat(), largest)
    # It may be another file by now: a FIFO without a writer must not keep the opening waiting.
    link = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link)
    with FileIO(descriptor, "rb") as file:
        _require_regular(path, os.fstat(descriptor), largest)
        yield file


def _require_regular(path: Path, found: os.stat_result, largest: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InputError(
            f"{path}, no plain file but {stat.filemode(found.st_mode)}",
            rule="only plain files are read, no directory, pipe or device",
            fix="name a plain file, or copy it into one",
        )
    if found.st_size > largest:
        raise _too_large(path, str(found.st_size), largest)


def _too_large(path: Path, size: str, largest: int) -> InputError:
    return InputError(
        f"{path} of {size} bytes",
        rule=f"a file that is read here has at most {largest} bytes",
        fix="name another file, or split it",
    )


def write_durably(path: Path, content: bytes) -> None:
    """Replaces a plain file; when this returns, a loss of power does not undo it.

    Args:
        path: The file, or nothing; what is being written lies beside it under another name.
        content: What it holds afterwards.

    Raises:
        OSError: If it cannot be written; the file is then as it was.
    """
    part = path.with_name(path.name + PART)
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
            path, rule="the target is a file, and this path is a directory", fix="name a file in it"
        )
    elif (stream := _stream(found)) is not None:
        _send(os.dup(stream), content)
    elif stat.S_ISREG(found.st_mode):
        _replace(path.resolve(), content)
    else:  # renamed onto, /dev/null would become a file
        _send(os.open(path, os.O_WRONLY), content)
    return path


def prepare_folder(path: Path) -> None:
    """Makes a folder, and tries that a file can be made in it.

    Raises:
        InputError: If not.
    """
    _try_folder(path, path)


def _try_folder(folder: Path, named: Path) -> None:
    """Makes a folder and a file in it, for a path that somebody named."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(named, error.strerror or str(error)) from error


def prepare_file(path: Path) -> None:
    """Tries that ``write_atomically`` can write a path, whose folder is made.

    Raises:
        InputError: If not.
    """
    try:
        found = _status(path)
    except OSError as error:  # a file in a folder's place
        raise _unwritable(path, error.strerror or str(error)) from error
    if found is None or stat.S_ISREG(found.st_mode):
        if found is None or _stream(found) is None:
            _try_folder(path.resolve().parent, path)
    elif stat.S_ISDIR(found.st_mode):
        raise _unwritable(path, "it is a directory")
    elif not os.access(path, os.W_OK):
        raise _unwritable(path, "it may not be written")


def _unwritable(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} ({why})",
        rule="results are written to a path where a file can be created",
        fix="name another path, or make room",
    )


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
