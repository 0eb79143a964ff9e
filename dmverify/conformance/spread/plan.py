"""What a run asks of one kernel, as plain data, and how its cases are spread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from dmverify import __version__
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.expectations import Expectation
from dmverify.conformance.selection import Asked
from dmverify.conformance.spread.block import Asking, Workers
from dmverify.conformance.verdict import Finding
from dmverify.errors import InputError
from dmverify.shards import WHOLE, Shard
from dmverify.spec.recording import Provenance, contract_texts

FILE = "findings.dmv"  # beside report.json
Opened: TypeAlias = Callable[[Asking], AbstractContextManager[Workers]]
"""Opens workers for a kernel, and ends them."""

ONCE = frozenset(name for name, check in CHECKS.items() if check.once)  # about the kernel


@dataclass(frozen=True)
class Spread:
    """How the cases of a run are spread.

    Attributes:
        shard: (i, n): of all cases those at i, i + n, i + 2n, ...
        workers: Opens the workers that judge them, for a kernel; None means what ``-j`` does.
        gpus: GPUs that a worker needs for the kernel, perhaps a part of one.
        keep: The folder of the file with what was found; None keeps none.
        resume: Whether to go on with such a file of a run that was interrupted.
    """

    shard: Shard = WHOLE
    workers: Opened | None = None
    gpus: float = 0.0
    keep: Path | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.shard != WHOLE and self.keep is None:
            raise InputError(
                "shard {}/{} without a folder".format(*self.shard),
                rule="a shard is kept in a file, which a merge reads",
                fix="name a folder of its own with --out",
            )
        if self.resume and (self.keep is None or self.workers is None):
            raise InputError(
                "--resume without --out and --executor",
                rule="only a run over workers that wrote into a folder can be resumed",
                fix="repeat the whole command that was interrupted, with --out and --executor",
            )


@dataclass(frozen=True)
class Plan:
    """All that decides what a run finds and how its report reads, but for the kernel's answers.

    Attributes:
        made_with: Version of this project.
        asking: How the kernel is asked.
        producer: What it says it is.
        contracts: Names of the contracts that cases are asked under, the kernel's own first.
        texts: What each of them says.
        asked: Every case of the run with its contract, those of other shards too.
        checks: Ids of the checks; empty for all.
        level: Name of the level.
        seed: First seed of the drawn cases.
        expect: Path of the file of expectations; empty for none.
        expected: What it says.
        min_served: As for ``verify``.
        max_error: As for ``verify``.
        shard: Which part of the cases is judged.
    """

    made_with: str
    asking: Asking
    producer: Provenance
    contracts: tuple[str, ...]
    texts: dict[str, str]
    asked: tuple[Asked, ...]
    checks: tuple[str, ...]
    level: str
    seed: int
    expect: str
    expected: tuple[Expectation, ...]
    min_served: float
    max_error: dict[str, float]
    shard: Shard

    @property
    def places(self) -> range:
        """The cases of the shard, by number."""
        first, step = self.shard
        return range(first, len(self.asked), step)

    @property
    def part(self) -> tuple[Asked, ...]:
        """The cases of the shard."""
        return tuple(self.asked[place] for place in self.places)

    def differs(self, other: Plan, *, but: tuple[str, ...] = ()) -> str:
        """Names of the fields that differ, in words; empty if none does.

        Args:
            other: Another plan.
            but: Fields that may differ.
        """
        names = [one.name for one in fields(self) if one.name not in but]
        return ", ".join(name for name in names if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True)
class Kept:
    """What a part of a run found.

    Attributes:
        plan: What was asked.
        judged: Findings by the place of their case among ``plan.asked``.
        before: By case, what has to be asked first to see its failure again.
        notes: What the reader must know.
        ended: Whether the run came to its end.
    """

    plan: Plan
    judged: dict[int, tuple[Finding, ...]]
    before: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]
    ended: bool


def version_and_texts(contracts: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a plan that say by what it is judged."""
    return {
        "made_with": __version__,
        "contracts": contracts,
        "texts": contract_texts(("", name) for name in contracts),
    }
