"""Reads what two runs wrote: ``report.json`` of ``verify``, or what ``bench --json`` printed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dmverify.conformance.report.document import Document
from dmverify.errors import InputError
from dmverify.files import read_regular

LARGEST = 1 << 28  # bytes


class Timings(msgspec.Struct, forbid_unknown_fields=True):
    """What ``dmverify bench --json`` prints."""

    gpu: str
    torch: str
    rows: tuple[dict[str, str | float], ...]


def read_document(path: Path) -> Document | Timings:
    """The report or the timings in a file; of a folder, its report.json.

    Args:
        path: Written by ``dmverify verify --out``, ``verify --json`` or ``bench --json``.

    Raises:
        InputError: If it is neither, or too large; the message says where.
    """
    file = path / "report.json" if path.is_dir() else path
    content = read_regular(file, largest=LARGEST)
    try:
        found = msgspec.json.decode(content)
        if isinstance(found, dict) and "rows" in found:
            return msgspec.convert(found, Timings)
        return msgspec.convert(found, Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{file}: {error}",
            rule="what is compared is a report of this version of the format, or timings",
            fix="write it with 'dmverify verify --out', or 'dmverify bench --json'",
        ) from error
