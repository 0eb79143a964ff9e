"""What a worker leaves for its caller: one file of numbers and one of words for every fault.

No recording: a mutant has two answers to a case, of the forward alone and of the whole call, and
one that is a matter of timing a count of runs. Nothing of it ships, or outlives the judging.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.kernel.build import write_atomic
from dmverify.spec.case import F32, Outputs
from dmverify.spec.recording import Provenance

PRODUCER = "producer.json"
STARTED = ".started"  # an empty file, once a worker has come to a fault
NAMES = ("o", "lse", "dq", "dk", "dv")

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
    """Writes the numbers, then the words: a reply whose words are there is whole."""
    arrays: dict[str, F32] = {}
    for i, ((o, lse), outputs) in enumerate(reply.answers):
        arrays |= {f"{i}/forward/o": o, f"{i}/forward/lse": lse}
        arrays |= {f"{i}/{key}": array for key, array in outputs.items()}
    with (folder / f"{name}.npz").open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    words = {
        "verdict": reply.verdict,
        "answers": len(reply.answers),
        "reason": reply.reason,
        "caught": reply.caught,
        "runs": reply.runs,
        "seconds": round(reply.seconds, 3),
    }
    write_atomic(folder / f"{name}.json", json.dumps(words).encode())


def read_reply(folder: Path, name: str) -> Reply | None:
    """The reply of this fault, or None if there is none."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    words = json.loads(path.read_text())
    count = words.pop("answers")
    with np.load(folder / f"{name}.npz") as arrays:
        answers = tuple(_answer(arrays, i) for i in range(count))
    return Reply(answers=answers, **words)


def write_producer(folder: Path, producer: Provenance) -> None:
    """Writes what runs, for the report."""
    write_atomic(folder / PRODUCER, json.dumps(asdict(producer)).encode())


def read_producer(folder: Path) -> dict[str, Any]:
    """What ran; empty if nothing did."""
    path = folder / PRODUCER
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _answer(arrays: np.lib.npyio.NpzFile, i: int) -> Answer:
    named: dict[str, F32] = {name: arrays[f"{i}/{name}"] for name in NAMES}
    delta: F32 | None = arrays[f"{i}/delta"] if f"{i}/delta" in arrays else None
    outputs = Outputs(**named, delta=delta)
    return (arrays[f"{i}/forward/o"], arrays[f"{i}/forward/lse"]), outputs
