"""The kill matrix: every seeded fault against our checks and against every public rule.

A check of ours kills a fault if it rejects it on one of the fault's cases. A public rule kills it
if on one of them it rejects an output of the wrong kernel and accepts the same output of the
correct one: a rule that rejects both has noticed nothing. False positives are counted on the
correct kernel by bounds alone, since comparing its bits with themselves would prove nothing; they
are looked for in the cases that target faults, drawn anew with more seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dmverify.conformance.families import parse_case_id
from dmverify.errors import InputError
from dmverify.lab.mutants.answers import WITHOUT_BITS, Answered, Known, alarms, answer
from dmverify.lab.mutants.fault import Fault
from dmverify.lab.mutants.planted import kernel_of
from dmverify.lab.public_rules import PUBLIC_RULES

Key: TypeAlias = tuple[str, str]
"""Case id and contract name."""


@dataclass(frozen=True)
class Row:
    """One fault, over all its cases.

    Attributes:
        fault: The fault.
        with_bits: Checks that reject it when bits are compared.
        without_bits: Checks that reject it by bounds alone.
        margin: Worst margin by bounds alone.
        error: Largest relative distance of an output from the bits.
        rules: By public rule, whether it kills the fault.
    """

    fault: Fault
    with_bits: tuple[str, ...]
    without_bits: tuple[str, ...]
    margin: float
    error: float
    rules: dict[str, bool]

    @property
    def killed(self) -> bool:
        """Whether the check that names the fault rejects it."""
        return self.fault.check in self.with_bits

    @property
    def killed_without_bits(self) -> bool:
        """Whether any check rejects it by bounds alone."""
        return bool(self.without_bits)

    def to_json(self) -> dict[str, Any]:
        """Ready for json; what is infinite is null."""
        return {
            "id": self.fault.id,
            "group": self.fault.group,
            "what": self.fault.what,
            "names": self.fault.check,
            "killed": self.killed,
            "by": self.fault.check if self.killed else None,
            "rejected_by": list(self.with_bits),
            "killed_without_bits": self.killed_without_bits,
            "rejected_without_bits_by": list(self.without_bits),
            "margin_without_bits": _finite(self.margin),
            "error": _finite(self.error),
            "hidden": "" if self.killed_without_bits else self.fault.hidden,
            "cases": list(self.fault.cases),
            "public_rules": self.rules,
        }


@dataclass(frozen=True)
class Matrix:
    """All rows, and how the correct kernel fared on the same cases.

    Attributes:
        rows: One a fault.
        alarms: By case and contract, the checks that rejected the correct kernel.
        unused: By public rule, the cases on which it rejects an output of the correct one.
    """

    rows: tuple[Row, ...]
    alarms: dict[Key, tuple[str, ...]]
    unused: dict[str, int]

    @property
    def survivors(self) -> tuple[Row, ...]:
        """The faults that their own check does not reject."""
        return tuple(row for row in self.rows if not row.killed)

    @property
    def tried(self) -> int:
        """Cases, by id and contract, that hunt these faults."""
        return len({(case, row.fault.contract) for row in self.rows for case in row.fault.cases})

    @property
    def ok(self) -> bool:
        """Whether every fault is killed, and nothing else."""
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
            "false_positives": {
                "cases": len(self.alarms),
                "checks": len(self.alarms) * len(WITHOUT_BITS),
                "alarms": sum(map(len, self.alarms.values())),
                "where": [
                    {"case": case, "contract": contract, "checks": list(checks)}
                    for (case, contract), checks in self.alarms.items()
                    if checks
                ],
            },
        }


def kill_matrix(
    faults: Sequence[Fault],
    *,
    alarm_seeds: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Matrix:
    """Tries every fault on its cases, and the correct kernel on the same and more.

    Args:
        faults: Rows of the table.
        alarm_seeds: How many seeds of every case are searched for false positives.
        progress: Called with the id of each fault before it is tried.

    Raises:
        InputError: For less than one seed.
    """
    if alarm_seeds < 1:
        raise InputError(
            f"alarm_seeds={alarm_seeds}",
            rule="false positives are looked for at least in the cases that hunt faults",
            fix="pass 1 or more",
        )
    known: dict[Key, Known] = {}
    rows = []
    for fault in faults:
        progress(fault.id)
        for case in fault.cases:
            known.setdefault((case, fault.contract), Known(case, fault.contract))
        rows.append(_try(fault, [known[case, fault.contract] for case in fault.cases]))
    return Matrix(tuple(rows), _alarms(known, alarm_seeds, progress), _unused(known))


def _alarms(
    known: dict[Key, Known], seeds: int, progress: Callable[[str], None]
) -> dict[Key, tuple[str, ...]]:
    found = {}
    for (case, contract), one in known.items():
        progress(f"the correct kernel on {case}")
        found[case, contract] = alarms(one)
        parts = parse_case_id(case)
        for seed in range(parts.seed + 1, parts.seed + seeds):
            other = str(replace(parts, seed=seed))
            found[other, contract] = alarms(Known(other, contract))
    return found


def _unused(known: dict[Key, Known]) -> dict[str, int]:
    return {
        name: sum(one.rules_accept[name] != rule.judges.keys() for one in known.values())
        for name, rule in PUBLIC_RULES.items()
    }


def _try(fault: Fault, known: Sequence[Known]) -> Row:
    kernel = kernel_of(fault)
    answers = [answer(kernel, one) for one in known]
    return Row(
        fault=fault,
        with_bits=_union([a.with_bits for a in answers]),
        without_bits=_union([a.without_bits for a in answers]),
        margin=max(a.margin for a in answers),
        error=max(a.error for a in answers),
        rules=_any(answers),
    )


def _union(ids: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in ids for name in some))


def _any(answers: Sequence[Answered]) -> dict[str, bool]:
    return {name: any(a.rules[name] for a in answers) for name in PUBLIC_RULES}


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
