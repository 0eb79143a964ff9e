"""Reads a recording that somebody else made, or refuses it.

| refused if | because |
|---|---|
| a file is no plain one, too large, cut, or has another hash | it is not what was made |
| the manifest does not follow ``schema`` | a verdict, say, cannot be recorded |
| an id or contract is not in its canonical form, or unknown | one case has one name |
| a question is asked twice, answered twice, answered and declined | the second hides the first |
| an answer is larger than the case's outputs | memory is spent on what the case needs |

Nothing is judged here. Numbers are read when they are looked up, one answer at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

from dmverify.conformance.questions import require_case
from dmverify.conformance.schema import (
    AnswerRow,
    Footer,
    HashedRow,
    Kind,
    Manifest,
    OutputName,
    UnansweredRow,
    decode,
)
from dmverify.conformance.sizes import estimate
from dmverify.conformance.store import (
    FOOTER,
    FORMAT,
    MANIFEST,
    VERSION,
    Sealed,
    StoredAnswers,
    answer_path,
    seal,
    seal_of,
)
from dmverify.conformance.tensors import HEADER
from dmverify.conformance.words import printable
from dmverify.errors import DmverifyError, InputError, RecordingError
from dmverify.files import read_regular
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import Key, Part, Provenance, Question, Recording, Unanswered

LARGEST_MANIFEST, LARGEST_FOOTER = 1 << 26, 1 << 12  # bytes
AGAIN = "record it again, or fetch the file again"
Row = TypeVar("Row", AnswerRow, HashedRow, UnansweredRow)


def load(directory: str | os.PathLike[str]) -> Recording:
    """Reads a recording and checks every hash.

    Raises:
        RecordingError: If it is missing, truncated, tampered with, of another version, or says
            what a recording cannot say; the message names the file or entry.
    """
    path = Path(directory)
    if not path.is_dir():
        raise RecordingError(
            path,
            rule="a recording is a directory that exists",
            fix="check the path, or record first",
        )
    manifest = _manifest(path)
    asked = tuple(Question(row.case, row.contract, row.inputs) for row in manifest.asked)
    names: dict[str, str] = {}  # canonical ones of contracts, of which there are few
    rooms = {question.key: _room(path, question, names) for question in asked}
    if len({(case_id, names[contract]) for case_id, contract in rooms}) < len(asked):
        _reject(path / MANIFEST, "a question is asked once")
    if manifest.contracts.keys() != {question.contract for question in asked}:
        _reject(path / MANIFEST, "the texts of exactly the contracts that are named are there")
    rows = _by_key(path, asked, manifest.answers)
    declined = _by_key(path, asked, manifest.unanswered)
    hashed = _by_key(path, asked, manifest.hashed)
    for key in rows.keys() & declined.keys() | hashed.keys() & (rows.keys() | declined.keys()):
        _reject(f"{path}: {key}", "a question has an answer, its hashes, or a reason for none")
    sealed = {key: Sealed(row.bytes, row.sha256) for key, row in rows.items()}
    for key, due in sealed.items():
        _require_file(path, key, due, rooms[key])
    return Recording(
        producer=_producer(manifest),
        asked=asked,
        answers=StoredAnswers(path, sealed),
        unanswered={
            key: Unanswered(row.why, printable(row.reason)) for key, row in declined.items()
        },
        contracts=manifest.contracts,
        version=printable(manifest.made_with.dmverify),
        specification=manifest.made_with.specification,
        parts={
            key: Part(row.part.heads, _texts(row.part.whole))
            for key, row in rows.items()
            if row.part is not None
        },
        hashes={key: _texts(row.outputs) for key, row in hashed.items()},
    )


def _manifest(path: Path) -> Manifest:
    footer = _decoded(
        path / FOOTER,
        _content(path / FOOTER, LARGEST_FOOTER, "the write was interrupted: it is truncated"),
        Footer,
    )
    text = _content(path / MANIFEST, LARGEST_MANIFEST, "a recording has a manifest")
    if seal(text).sha256 != footer.manifest_sha256:
        _reject(path / MANIFEST, "the footer holds the manifest's SHA-256; it was changed")
    kind = _decoded(path / MANIFEST, text, Kind)
    if (kind.format, kind.version) != (FORMAT, VERSION):
        raise RecordingError(
            f"{path}: format {printable(kind.format)!r}, version {kind.version}",
            rule=f"this release reads {FORMAT} version {VERSION}",
            fix="record it again with this release, or read it with the release that wrote it",
        )
    manifest = _decoded(path / MANIFEST, text, Manifest)
    if len(manifest.answers) != footer.answers:
        found = len(manifest.answers)
        _reject(path, f"the footer promises {footer.answers} answers, not {found}")
    return manifest


def _content(path: Path, largest: int, missing: str) -> bytes:
    try:
        return read_regular(path, largest=largest)
    except FileNotFoundError:
        _reject(path, missing)
    except (OSError, InputError) as error:
        _reject(path, f"it is a plain file that can be read ({error})")


def _decoded(path: Path, content: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return decode(content, kind)
    except ValueError as error:
        _reject(path, f"it holds what this release writes ({printable(error)})")


_Kind = TypeVar("_Kind", Footer, Kind, Manifest)


def _room(path: Path, question: Question, names: dict[str, str]) -> int:
    """Bytes that the answer to a question may have; notes what its contract is called."""
    contract = question.contract
    try:
        names[contract] = names.get(contract) or get_contract(contract).name
        problem = require_case(question.case_id)
    except DmverifyError as error:
        _reject(
            f"{path}: {printable(question.case_id)!r} under {printable(question.contract)!r}",
            f"questions are named by canonical ids of this release ({printable(error)})",
        )
    return HEADER + estimate(problem).outputs


def _by_key(path: Path, asked: tuple[Question, ...], rows: Iterable[Row]) -> dict[Key, Row]:
    """Rows by the question that they are about, each of which has one."""
    found: dict[Key, Row] = {}
    for row in rows:
        if row.asked >= len(asked):
            _reject(path / MANIFEST, f"question {row.asked} is one of the {len(asked)} that follow")
        key = asked[row.asked].key
        if key in found:
            _reject(f"{path}: {key}", "a question has one answer, or one reason for none")
        found[key] = row
    return found


def _require_file(path: Path, key: Key, due: Sealed, room: int) -> None:
    if due.size > room:
        _reject(f"{path}: {due.size} bytes for {key}", f"its outputs need {room} at the most")
    try:
        found = seal_of(answer_path(path, key), largest=due.size)
    except (OSError, InputError) as error:
        _reject(f"{path}: the answer to {key}", f"it is a plain file of its size ({error})")
    if found != due:
        _reject(f"{path}: the answer to {key}", "it has the manifest's size and SHA-256")


def _producer(manifest: Manifest) -> Provenance:
    row = manifest.producer
    return Provenance(
        kernel=printable(row.kernel),
        source=printable(row.source),
        build=printable(row.build),
        compiler=printable(row.compiler),
        flags=tuple(map(printable, row.flags)),
        device=printable(row.device),
        driver=printable(row.driver),
    )


def _texts(found: Mapping[OutputName, str]) -> dict[str, str]:
    return {str(name): text for name, text in found.items()}


def _reject(value: object, rule: str) -> NoReturn:
    raise RecordingError(value, rule=rule, fix=AGAIN)
