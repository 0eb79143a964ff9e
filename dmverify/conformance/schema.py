"""The schema of a recording's files; what it does not name is refused.

``msgspec`` refuses unknown fields, other types, numbers for texts and texts that are too long. It
is imported where a file from outside is read, so that a machine that only runs a kernel needs none
of it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from dmverify.errors import DependencyError
from dmverify.spec.recording import Word

try:
    import msgspec
except ModuleNotFoundError as missing:
    raise DependencyError(
        "no module msgspec",
        rule="files from outside are read by their schema, with msgspec",
        fix="pip install msgspec",
    ) from missing

QUESTIONS = 100_000  # of one recording

Short = Annotated[str, msgspec.Meta(max_length=400)]
ContractName = Annotated[str, msgspec.Meta(max_length=1000)]  # it says every field that differs
Text = Annotated[str, msgspec.Meta(max_length=10_000)]
Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
HashOrNone = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
ShortHash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
OutputName = Literal["o", "lse", "dq", "dk", "dv", "delta"]
T = TypeVar("T")


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """An object with these fields and no other."""


class Kind(msgspec.Struct):
    """What every manifest begins with, of whatever version; its other fields are passed over."""

    format: Text
    version: int


class MadeWith(Table):
    """Versions on the machine that wrote the recording."""

    dmverify: Short
    specification: HashOrNone  # none in what was recorded before there was this field
    numpy: Short
    python: Short


class ProducerRow(Table):
    """The fields of ``spec.recording.Provenance``."""

    kernel: Text
    source: Text
    build: Text
    compiler: Text
    flags: Annotated[tuple[Text, ...], msgspec.Meta(max_length=1000)]
    device: Text
    driver: Text


class AskedRow(Table):
    """The fields of ``spec.recording.Question``."""

    case: Short
    contract: ContractName
    inputs: Hash


class PartRow(Table):
    """The fields of ``spec.recording.Part``."""

    heads: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=1000)]
    whole: dict[OutputName, Hash]


class AnswerRow(Table):
    """An answer: the number of its question, and the file that holds it."""

    asked: Count
    bytes: Count
    sha256: Hash
    part: PartRow | None = None


class HashedRow(Table):
    """An answer whose numbers are not kept: the hash of every output."""

    asked: Count
    outputs: Annotated[dict[OutputName, ShortHash], msgspec.Meta(min_length=1)]


class UnansweredRow(Table):
    """The fields of ``spec.recording.Unanswered``."""

    asked: Count
    why: Word
    reason: Text


class Manifest(Table):
    """``manifest.json``."""

    format: Literal["dmverify-recording"]
    version: Literal[2]
    made_with: MadeWith
    producer: ProducerRow
    contracts: dict[ContractName, Text]
    asked: Annotated[tuple[AskedRow, ...], msgspec.Meta(max_length=QUESTIONS)]
    answers: Annotated[tuple[AnswerRow, ...], msgspec.Meta(max_length=QUESTIONS)]
    unanswered: Annotated[tuple[UnansweredRow, ...], msgspec.Meta(max_length=QUESTIONS)]
    hashed: Annotated[tuple[HashedRow, ...], msgspec.Meta(max_length=QUESTIONS)] = ()


class Footer(Table):
    """``footer.json``."""

    manifest_sha256: Hash
    answers: Count


def decode(content: bytes, kind: type[T]) -> T:
    """JSON of one of these kinds.

    Raises:
        ValueError: If it is anything else; the message says where.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise ValueError("brackets within brackets, too deep") from error
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
