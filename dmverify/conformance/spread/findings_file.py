"""What a run found, case after case, in a file that outlives it.

It begins with a line that names the format. Then come records: length and CRC-32, four bytes each
with the most significant first, and that many bytes of MessagePack (which, unlike JSON, has NaN and
infinity). The first record is the plan, every other one a case with its findings, and the last one
says that the run came to its end. Records are only ever appended, one write each.

| a run is interrupted | then what is gone on with |
|---|---|
| between two records | is every case that was judged |
| within one, or its bytes are damaged | is what lies before it; the rest is cut off |
| before the plan was written | is nothing |

It is written to the system and not forced to the disk: a process that is killed loses nothing, and
a machine that loses power may lose the last records, whose cases are judged again.
"""

from __future__ import annotations

import fcntl
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import msgspec

from dmverify.conformance.spread.plan import FILE, Kept, Plan
from dmverify.conformance.verdict import Finding
from dmverify.errors import InputError
from dmverify.files import open_regular

FIRST = b"dmverify-findings 1\n"
HEAD = struct.Struct(">II")
LARGEST = 1 << 28  # bytes of a record
T = TypeVar("T")


class Judged(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    """A case: its place in the plan, and its findings."""

    place: int
    findings: tuple[Finding, ...]


class Ended(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    """The run came to its end; see ``Kept``."""

    before: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]


_pack = msgspec.msgpack.Encoder().encode
_plan = msgspec.msgpack.Decoder(Plan).decode
_record = msgspec.msgpack.Decoder(Judged | Ended).decode


class FindingsFile:
    """Open for a run, which adds to it; a context that holds its lock.

    Args:
        folder: Where it lies.
        plan: What the run asks.
        resume: Whether to go on with what an interrupted run of the same plan left; None begins
            anew whatever it left.

    Attributes:
        judged: What was judged before, by place.

    Raises:
        InputError: If another run writes it; if an interrupted one left it and nothing says what to
            do with it; or if that one had another plan.
    """

    def __init__(self, folder: Path, plan: Plan, *, resume: bool | None) -> None:
        self.judged: dict[int, tuple[Finding, ...]] = {}
        self._ended = False
        self._path = folder / FILE
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = self._path.open("a+b")
        try:
            self._lock()
            size = self._path.stat().st_size
            left = None if resume is None or not size else _read(self._path, whole=False)
            self._begin(plan, left, resume=resume)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> FindingsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def keep(self, place: int, findings: tuple[Finding, ...]) -> None:
        """Adds a case."""
        self._write(_pack(Judged(place, findings)))

    def end(self, before: dict[str, tuple[str, ...]], notes: tuple[str, ...]) -> None:
        """Says that the run came to its end; once, of a run that had nothing left to do."""
        if not self._ended:
            self._write(_pack(Ended(before, notes)))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                self._path,
                rule="only one run at a time writes to a folder",
                fix="wait for the other one, or name another folder with --out",
            ) from error

    def _begin(self, plan: Plan, left: tuple[Kept, int] | None, *, resume: bool | None) -> None:
        """Starts anew, or cuts off what is no record and goes on behind it."""
        if left is None or resume is None or (left[0].ended and not resume):
            self._file.truncate(0)
            self._file.write(FIRST)
            self._write(_pack(plan))
            return
        kept, size = left
        if not resume:
            raise InputError(
                f"{self._path} with {len(kept.judged)} of {len(plan.places)} cases",
                rule="what an interrupted run judged is neither lost nor mixed in unasked",
                fix="go on with --resume if the kernel is the same; else remove the file",
            )
        if differs := plan.differs(kept.plan):
            raise InputError(
                f"{self._path} of a run with other {differs}",
                rule="a run is resumed with the options that it began with",
                fix="repeat the command that was interrupted, or name another folder with --out",
            )
        self.judged, self._ended = kept.judged, kept.ended
        self._file.truncate(size)

    def _write(self, content: bytes) -> None:
        self._file.write(HEAD.pack(len(content), zlib.crc32(content)) + content)
        self._file.flush()


def read_findings(path: Path) -> Kept:
    """What a shard found.

    Args:
        path: The file, or its folder.

    Raises:
        InputError: If it is no such file, is damaged, or its run was interrupted.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            file,
            rule=f"a shard is a folder with {FILE}",
            fix="write it with 'dmverify verify KERNEL --shard i/n --out FOLDER'",
        )
    found = _read(file, whole=True)
    if found is None:
        raise _not_ours(file, "without its plan")
    kept, _ = found
    missing = [place for place in kept.plan.places if place not in kept.judged]
    if missing or not kept.ended:
        raise InputError(
            f"{file}, whose run was interrupted with {len(missing)} cases left",
            rule="only shards that ran to their end can be merged",
            fix="repeat the command of this shard",
        )
    return kept


def count_kept(path: Path) -> int:
    """How often a case was kept in a file that a run may be writing; 0 without one."""
    if not path.exists():
        return 0
    with open_regular(path) as raw, BufferedReader(raw) as file:
        size, end, records = path.stat().st_size, len(FIRST), 0
        while end + HEAD.size <= size:
            file.seek(end)
            end += HEAD.size + HEAD.unpack(file.read(HEAD.size))[0]
            records += end <= size
    return max(records - 1, 0)  # the first one is the plan


def _read(path: Path, *, whole: bool) -> tuple[Kept, int] | None:
    """What a file holds and how far that goes; None of one that has no plan yet."""
    with open_regular(path) as raw, BufferedReader(raw) as file:
        if (first := file.read(len(FIRST))) != FIRST:
            if not whole and FIRST.startswith(first):
                return None
            raise _not_ours(path, f"which begins with {first!r}")
        records = _records(file)
        content, size = next(records, (b"", 0))
        if not size:
            return None
        plan = _decoded(_plan, content, path)
        kept = Kept(plan, {}, {}, (), ended=False)
        for content, end in records:
            record = _decoded(_record, content, path)
            if isinstance(record, Ended):
                kept = replace(kept, before=record.before, notes=record.notes, ended=True)
            else:
                kept.judged[record.place] = record.findings
            size = end
        if whole and file.tell() != size:
            raise _not_ours(path, f"damaged behind byte {size}")
        return kept, size


def _records(file: BufferedReader[FileIO]) -> Iterator[tuple[bytes, int]]:
    """Each whole record and where it ends, until one is not whole."""
    while len(head := file.read(HEAD.size)) == HEAD.size:
        length, checksum = HEAD.unpack(head)
        content = file.read(length) if length <= LARGEST else b""
        if len(content) != length or zlib.crc32(content) != checksum:
            return
        yield content, file.tell()


def _decoded(decode: Any, content: bytes, path: Path) -> Any:
    try:
        return decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _not_ours(path, str(error)) from error


def _not_ours(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} ({why})",
        rule="this is what a run of this version found",
        fix="remove it, and repeat the command that wrote it",
    )
