"""Witnesses: the models that refute the controls, as files that anyone can replay.

A witness satisfies its lemma and violates the tightened one, so it sits at the edge of what is
allowed: an adversarial input for whatever rests on the lemma.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dmverify.errors import RecordingError
from dmverify.files import write_atomically
from dmverify.proofs.registry import Number, Values

DIRECTORY = Path(__file__).parent / "witnesses"


@dataclass(frozen=True)
class Witness:
    """Concrete values at which a control fails.

    Attributes:
        id: The lemma.
        goal: Which of its goals.
        constant: The lemma's constant.
        control: The control's.
        values: Variable to value; integers are bit patterns or integers, fractions exact reals.
    """

    id: str
    goal: str
    constant: Fraction
    control: Fraction
    values: Values

    def to_json(self) -> dict[str, Any]:
        """Plain data; fractions as "p/q", integers as hexadecimal."""
        return {
            "id": self.id,
            "goal": self.goal,
            "constant": _text(self.constant),
            "control": _text(self.control),
            "values": {name: _text(value) for name, value in sorted(self.values.items())},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Witness:
        """Read what ``to_json`` wrote.

        Raises:
            RecordingError: A field is missing or is no number.
        """
        try:
            values = {name: _number(text) for name, text in record["values"].items()}
            constant, control = Fraction(record["constant"]), Fraction(record["control"])
            return cls(record["id"], record["goal"], constant, control, values)
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise RecordingError(
                error, rule="a witness has id, goal, constant, control and values",
                fix="regenerate it by proving its lemma again",
            ) from error  # fmt: skip


def _text(value: Number) -> str:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    return hex(value)


def _number(text: str) -> Number:
    return Fraction(text) if "/" in text else int(text, 16)


def store(witness: Witness, *, directory: Path = DIRECTORY) -> Path:
    """Write a witness as ``<lemma id>.json``, atomically, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{witness.id}.json"
    return write_atomically(path, json.dumps(witness.to_json(), indent=1) + "\n")


def load(lemma_id: str, *, directory: Path = DIRECTORY) -> Witness:
    """Read the stored witness of a lemma.

    Raises:
        RecordingError: There is none, or it cannot be read.
    """
    path = directory / f"{lemma_id}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordingError(
            lemma_id, rule="every lemma has a stored witness", fix="prove it again and store it"
        ) from error
    return Witness.from_json(record)
