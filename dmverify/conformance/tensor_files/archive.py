"""ZIP archives from outside (npz and pt are such), read within bounds.

| a file that | is refused because |
|---|---|
| lists more than ``LARGEST_LIST`` bytes of members | the list alone would fill the memory |
| has a name twice, a member that is encrypted | which one is meant, or what it says, is unknown |
| has a member larger than it is asked for | what is small on disk may be terabytes unpacked |
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from dmverify.conformance.tensor_files.stored import broken

LARGEST_LIST = 1 << 20  # bytes: some 10,000 members
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


class _Small(io.BufferedReader):
    """A file of which no single read is large: ``zipfile`` reads an archive's list in one.

    Attributes:
        listing: Whether the list is being read.
    """

    listing = True

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, or all that are left.

        Raises:
            ValueError: For more than ``LARGEST_LIST`` while the list is being read.
        """
        if not self.listing:
            return super().read(size)
        few = size is not None and 0 <= size <= LARGEST_LIST
        content = super().read(size if few else LARGEST_LIST + 1)
        if len(content) > LARGEST_LIST:
            raise ValueError(f"more than {LARGEST_LIST} bytes")
        return content


class Archive:
    """An archive that is open.

    Args:
        path: Where it lies, for messages.
        file: The file.

    Raises:
        InputError: If it is no archive, or one that the table refuses.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self._path = path
        small = _Small(file)
        with self._whole("its list of members"):
            self._zip = zipfile.ZipFile(small)
        small.listing = False  # members are read by their due size
        members = self._zip.infolist()
        self.sizes = {member.filename: member.file_size for member in members}
        if len(self.sizes) < len(members):
            raise broken(path, "a name occurs twice")

    def read(self, name: str, *, start: int = 0, count: int) -> bytes:
        """A part of a member, after unpacking.

        Raises:
            InputError: If it is not there, is not stored or deflated, or is shorter.
        """
        with self._whole(name), self._zip.open(name) as member:
            info = self._zip.getinfo(name)
            if info.compress_type not in METHODS:
                raise ValueError("a method other than deflate")
            if len(member.read(start)) < start:
                raise EOFError
            content = member.read(count)
            if len(content) < count:
                raise EOFError
            return content

    def head(self, name: str, count: int) -> bytes:
        """The beginning of a member, as many bytes as it has and at most ``count``."""
        return self.read(name, count=min(count, self.sizes[name]))

    def is_stored(self, name: str) -> bool:
        """Whether a member has the size on disk that it has unpacked."""
        return self._zip.getinfo(name).compress_type == zipfile.ZIP_STORED

    @contextmanager
    def _whole(self, what: str) -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise broken(self._path, f"{what!r:.80} is not there") from error
        except (*FAULTS, NotImplementedError) as error:
            raise broken(self._path, f"{what!r:.80} cannot be read ({error!s:.200})") from error
