"""What a worker leaves for its caller: a safetensors file a fault, words beside the numbers.

It is written as processes write their answers (``conformance.tensors``), and no recording: a mutant
has two answers to a case, of the forward alone and of the whole call, and one that is a matter of
timing a count of runs. Nothing of it ships, or outlives the judging.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dmverify.conformance.tensors import decode, encode, texts
from dmverify.kernel.build import write_atomic
from dmverify.spec.case import F32, Outputs
from dmverify.spec.recording import Provenance

PRODUCER = "producer.json"
WORDS = "words"  # the name of the text beside the numbers

Answer = tuple[tuple[F32, F32], Outputs]
"""(O, LSE) of a forward pass alone, and the outputs of a whole call."""


@dataclass(frozen=True)
class Reply:
    """How one fault fared.

    Attributes:
        verdict: ``answered``, ``crash`` (a CUDA error), ``timeout``, or ``error`` (not the
            kernel's doing: nothing was learnt).
        answers: One a case.
        reason: What the error said.
        caught: Runs in which a bit was wrong, for a fault that is a matter of timing.
        runs: Out of how many.
        seconds: How long it took.
    """

    verdict: str
    answers: tuple[Answer, ...] = ()
    reason: str = ""
    caught: int = 0
    runs: int = 0
    seconds: float = 0.0

    def after(self, seconds: float) -> Reply:
        """The reply with the time it took."""
        return replace(self, seconds=seconds)


def write_reply(folder: Path, name: str, reply: Reply) -> None:
    """Writes a reply, all of it or nothing."""
    arrays: dict[str, F32] = {}
    for i, ((o, lse), outputs) in enumerate(reply.answers):
        arrays |= {f"{i}/forward/o": o, f"{i}/forward/lse": lse}
        arrays |= {f"{i}/{key}": array for key, array in outputs.items()}
    words = {
        "verdict": reply.verdict,
        "reason": reply.reason,
        "caught": reply.caught,
        "runs": reply.runs,
        "seconds": round(reply.seconds, 3),
    }
    write_atomic(_path(folder, name), encode(arrays.items(), {WORDS: json.dumps(words)}))


def read_reply(folder: Path, name: str) -> Reply | None:
    """The reply of this fault, or None if there is none."""
    path = _path(folder, name)
    if not path.exists():
        return None
    content = path.read_bytes()
    answers: dict[int, dict[str, F32]] = {}
    for key, array in decode(content).items():
        number, _, output = key.partition("/")
        answers.setdefault(int(number), {})[output] = array
    words = json.loads(texts(content)[WORDS])
    return Reply(answers=tuple(_answer(found) for _, found in sorted(answers.items())), **words)


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def write_producer(folder: Path, producer: Provenance) -> None:
    """Writes what runs, for the report."""
    write_atomic(folder / PRODUCER, json.dumps(asdict(producer)).encode())


def read_producer(folder: Path) -> dict[str, Any]:
    """What ran; empty if nothing did."""
    path = folder / PRODUCER
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _answer(found: dict[str, F32]) -> Answer:
    alone = found.pop("forward/o"), found.pop("forward/lse")
    return alone, Outputs(**found)
