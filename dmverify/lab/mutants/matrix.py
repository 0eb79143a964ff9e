"""The kill matrix: every mutant of a back end against our checks and against every public rule.

A check of ours kills a mutant if it rejects it on one of the mutant's cases. A public rule kills it
if on one of them it rejects an output of the wrong kernel and accepts the same output of the
correct one: a rule that rejects both has noticed nothing. The back end says what the correct kernel
was rejected for: there nothing may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dmverify.conformance.families import parse_case_id
from dmverify.errors import InputError
from dmverify.lab.mutants.answers import Answered, known_of
from dmverify.lab.mutants.catalogue import Key, Mutant
from dmverify.lab.public_rules import PUBLIC_RULES

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """What is known of a mutant beside its answers.

    Attributes:
        rejected_by: What rejects it whatever it answers.
        ended: Whether it hung or failed, as it may: then there need be no answer.
        told: For the report.
    """

    rejected_by: tuple[str, ...] = ()
    ended: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One mutant, over all its cases.

    Attributes:
        mutant: The mutant.
        check: Id of the check that has to reject it.
        run: How it ran.
        with_bits: Checks that reject it when bits are compared.
        without_bits: Checks that reject it by bounds alone.
        margin: Worst margin by bounds alone.
        error: Largest relative distance of an output from the bits.
        rules: By public rule, whether it kills the mutant.
    """

    mutant: Mutant
    check: str
    run: Run
    with_bits: tuple[str, ...]
    without_bits: tuple[str, ...]
    margin: float
    error: float
    rules: dict[str, bool]

    @property
    def killed(self) -> bool:
        """Whether the check that names the mutant rejects it, or it gave no answer at all."""
        return self.run.ended or self.check in self.with_bits

    @property
    def killed_without_bits(self) -> bool:
        """Whether any check rejects it by bounds alone."""
        return bool(self.without_bits)

    def to_json(self) -> dict[str, Any]:
        """Ready for json; what is infinite is null."""
        killer = self.run.rejected_by[-1] if self.run.ended else self.check
        return {
            "id": self.mutant.id,
            "group": self.mutant.part,
            "what": self.mutant.what,
            "names": self.check,
            "killed": self.killed,
            "by": killer if self.killed else None,
            "rejected_by": list(self.with_bits),
            "killed_without_bits": self.killed_without_bits,
            "rejected_without_bits_by": list(self.without_bits),
            "margin_without_bits": _finite(self.margin),
            "error": _finite(self.error),
            "hidden": "" if self.killed_without_bits else self.mutant.hidden,
            "cases": list(self.mutant.cases),
            "public_rules": self.rules,
            **self.run.told,
        }


class BackEnd(Protocol):
    """What makes mutants of the catalogue, has them answer and judges them.

    Attributes:
        name: For reports.
        by_bits: Whether the correct kernel is judged by its bits too: it is not the specification.
        checks: How many checks judge it by bounds.
    """

    name: str
    by_bits: bool
    checks: int

    @property
    def made(self) -> Collection[str]:
        """Ids of the mutants that it can make."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What ran, if a program of its own."""

    def keys(self, mutant: Mutant) -> tuple[Key, ...]:
        """The mutant's cases, each with the contract that is promised here."""

    def rows(self, mutants: Sequence[Mutant], progress: Progress) -> Iterator[Row]:
        """One row a mutant."""

    def alarms(
        self, mutants: Sequence[Mutant], seeds: int, progress: Progress
    ) -> dict[Key, tuple[str, ...]]:
        """What rejects the correct kernel, by case and contract."""


@dataclass(frozen=True)
class Matrix:
    """All rows, and how the correct kernel fared on the same cases.

    Attributes:
        rows: One a mutant.
        alarms: By case and contract, the checks that rejected the correct kernel.
        unused: By public rule, the cases on which it rejects an output of the correct one.
        tried: Cases, by id and contract, that show these mutants.
        back_end: What made them.
    """

    rows: tuple[Row, ...]
    alarms: dict[Key, tuple[str, ...]]
    unused: dict[str, int]
    tried: int
    back_end: BackEnd

    @property
    def survivors(self) -> tuple[Row, ...]:
        """The mutants that their own check does not reject."""
        return tuple(row for row in self.rows if not row.killed)

    @property
    def ok(self) -> bool:
        """Whether every mutant is killed, and nothing else."""
        return not self.survivors and not any(self.alarms.values())

    def to_json(self) -> dict[str, Any]:
        """Ready for json."""
        return {
            "ok": self.ok,
            "faults": [row.to_json() for row in self.rows],
            "public_rules": {
                name: {
                    "suite": rule.suite,
                    "rule": rule.rule,
                    "kills": sum(row.rules[name] for row in self.rows),
                    "rejects_correct": self.unused[name],
                }
                for name, rule in PUBLIC_RULES.items()
            },
            "cases": self.tried,
            "false_positives": self._alarms(),
            **({"producer": dict(told)} if (told := self.back_end.provenance) else {}),
        }

    def _alarms(self) -> dict[str, Any]:
        found = sum(map(len, self.alarms.values()))
        shape = {
            "cases": len(self.alarms),
            "checks": len(self.alarms) * self.back_end.checks,
            "alarms": found,
            "where": [
                {"case": case, "contract": contract, "checks": list(checks)}
                for (case, contract), checks in self.alarms.items()
                if checks
            ],
        }
        told = {"with_bits": f"{found} of {len(self.alarms)} cases"}
        return shape | told if self.back_end.by_bits else shape


def kill_matrix(
    mutants: Sequence[Mutant],
    back_end: BackEnd,
    *,
    alarm_seeds: int = 1,
    progress: Progress = lambda _: None,
) -> Matrix:
    """Tries every mutant on its cases, and the correct kernel on the same and more.

    Args:
        mutants: Rows of the catalogue that the back end makes.
        back_end: What makes them.
        alarm_seeds: How many seeds of every case are searched for false positives, where the
            correct kernel can be asked here.
        progress: Called with the id of each mutant before it is tried.

    Raises:
        InputError: For less than one seed.
    """
    if alarm_seeds < 1:
        raise InputError(
            f"alarm_seeds={alarm_seeds}",
            rule="false positives are looked for at least in the cases that show mutants",
            fix="pass 1 or more",
        )
    rows = tuple(back_end.rows(mutants, progress))
    alarms = back_end.alarms(mutants, alarm_seeds, progress)
    keys = dict.fromkeys(key for mutant in mutants for key in back_end.keys(mutant))
    return Matrix(rows, alarms, _unused(keys), len(keys), back_end)


def row_of(mutant: Mutant, check: str, answers: Sequence[Answered], run: Run = Run()) -> Row:
    """A row from what was said about each answer.

    Args:
        mutant: The mutant.
        check: Id of the check that has to reject it here.
        answers: One a case, as far as it answered.
        run: How it ran.
    """
    always = run.rejected_by
    return Row(
        mutant=mutant,
        check=check,
        run=run,
        with_bits=union([always, *(a.with_bits for a in answers)]),
        without_bits=union([always, *(a.without_bits for a in answers)]),
        margin=max((a.margin for a in answers), default=math.inf),
        error=max((a.error for a in answers), default=math.inf),
        rules={name: run.ended or any(a.rules[name] for a in answers) for name in PUBLIC_RULES},
    )


def drawn(keys: Iterable[Key], seeds: int) -> Iterator[Key]:
    """Every case once, then the same case with the seeds after its own."""
    for case, contract in dict.fromkeys(keys):
        parts = parse_case_id(case)
        for seed in range(parts.seed, parts.seed + seeds):
            yield str(replace(parts, seed=seed)), contract


def union(ids: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Every id once, in the order in which they come."""
    return tuple(dict.fromkeys(name for some in ids for name in some))


def _unused(keys: Iterable[Key]) -> dict[str, int]:
    known = [known_of(*key) for key in keys]
    return {
        name: sum(one.rules_accept[name] != rule.judges.keys() for one in known)
        for name, rule in PUBLIC_RULES.items()
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
