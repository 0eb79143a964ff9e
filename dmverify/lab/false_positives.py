"""Looks for false positives: correct kernels on many cases, judged by every check of the suite.

| kernel | modes | judged |
|---|---|---|
| simulation | article in every delta it serves, upstream | by intervals: every order is open |
| emulator | bundled in every delta and cast | by intervals too, its own bits would prove nothing |
| bundled | the same, on a Hopper GPU | by bits as well, and by its builds and machine code |
| recorded | the same, as an H200 answered | by intervals, which never saw these answers |
| formats | the features of ``lab.formats``, one contract each | by what one answer shows |

A cell is a mode and a family; each gets the same number of distinct cases, drawn with seeds that no
other test uses. Sizes vary where the family leaves them open. ``recorded`` has the cases whose
hashes were recorded and no others, so a cell may get fewer. An alarm is any verdict but conforms,
indeterminate and unsupported. Shards share nothing, so they run anywhere:

    dmverify lab false-positives --per 100 --shard 0/16 --out 0.json
    dmverify lab false-positives --merge 0.json --merge 1.json ... --out all.json
    dmverify lab false-positives --per 200 --start 100  # goes on where that one ended

A family that came later is searched alone (``--families``), with a record of its own.
Not covered: kernels that are not ours, which may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.checks.check import Check
from dmverify.conformance.events import ignore
from dmverify.conformance.families import FAMILIES, generate, list_cases
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import SUPPORT, run
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import ContractError, InputError
from dmverify.lab.formats import Steps
from dmverify.lab.recordings.by_hash import ByHash
from dmverify.shards import WHOLE, Shard, require_every_shard
from dmverify.spec.contracts import DELTAS, DS_CASTS, get_contract

FIRST_SEED = 700_000
ALARMS = (Verdict.FAILS, Verdict.ERROR, Verdict.TIMEOUT)
FREE_SIZES = ("gaussian", "outliers", "duplicates", "constant-v", "positive-v", "offset")
RECORDED, FORMATS = "recorded", "formats"
SIMULATED = ("stale", "consistent", "matched", "renormalized", "shifted")


@dataclass(frozen=True)
class Plan:
    """What a whole search is asked, as the record of each shard says it.

    Attributes:
        per: Distinct cases of each cell, those before ``start`` counted in.
        start: How many of a cell an earlier search had; they are left out.
        every: See ``search``.
        kernels: Names of the table above.
        families: Names of families; none are all.

    Raises:
        InputError: If no case is asked again.
    """

    per: int
    start: int = 0
    every: int = 1
    kernels: Sequence[str] = ()
    families: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(
                f"every={self.every}",
                rule="every N-th case is asked again, with N at least 1",
                fix="pass 1 or more",
            )

    def jobs(self) -> Iterator[Job]:
        """Every job, in a fixed order; see ``list_jobs``."""
        return list_jobs(self.kernels, self.per, families=self.families, start=self.start)

    def to_json(self) -> dict[str, Any]:
        """Every field, lists for names."""
        return asdict(self) | {"kernels": [*self.kernels], "families": [*self.families]}


PLAN = tuple(field.name for field in fields(Plan))  # what a record says it was asked


@dataclass(frozen=True)
class Job:
    """One case of one mode."""

    kernel: str
    contract: str
    family: str
    case: str
    number: int = 0

    @property
    def cell(self) -> str:
        """Mode and family."""
        return f"{self.kernel} {self.contract} {self.family}"


def modes(kernel: str) -> tuple[str, ...]:
    """Contracts that a kernel is tried under.

    Raises:
        InputError: For a kernel that the table above does not have.
    """
    if kernel == "simulation":
        return (*(f"article:delta={delta}" for delta in SIMULATED), "upstream")
    if kernel == FORMATS:
        return Steps.contracts
    if kernel not in ("emulator", "bundled", RECORDED):
        raise InputError(
            f"kernel {kernel!r}",
            rule="false positives are looked for with kernels known to be correct",
            fix="use simulation, emulator, bundled, recorded or formats",
        )
    names = (f"bundled:delta={d},ds_cast={c}" for c in DS_CASTS for d in DELTAS)
    return tuple(name for name in names if _exists(name))


def _exists(name: str) -> bool:
    try:
        get_contract(name)
    except ContractError:
        return False
    return True


def list_jobs(
    kernels: Sequence[str], per: int, *, families: Sequence[str] = (), start: int = 0
) -> Iterator[Job]:
    """Every job, in a fixed order.

    Args:
        kernels: Names of the table above.
        per: Distinct cases of each cell, those before ``start`` counted in.
        families: Names of families; none are all.
        start: How many of a cell an earlier search had; they are left out.

    Raises:
        InputError: For less than one case.
        UnknownNameError: For an unknown family.
    """
    if not 0 <= start < per:
        raise InputError(
            f"start={start}, per={per}",
            rule="every mode and family is asked at least one case",
            fix="pass 0 <= start < per",
        )
    for kernel in kernels:
        if kernel == RECORDED:
            found = _recorded_jobs(start, per)  # problems by chance among them, of no listed family
            yield from (job for job in found if not families or job.family in families)
            continue
        for contract in modes(kernel):
            for family in families or FAMILIES:
                variants = [case.partition("@")[0] for case in list_cases(family)]
                for i in range(start, per if variants else 0):  # large variants alone: no cell
                    stem = variants[i % len(variants)]
                    case = f"{stem}{_sizes(family, i)}@{FIRST_SEED + i}"
                    yield Job(kernel, contract, family, case, i)


def _recorded_jobs(start: int, per: int) -> Iterator[Job]:
    """Recorded cases ``start`` to ``per`` of each cell, or what it has of them."""
    met: Counter[str] = Counter()
    for case, contract in ByHash().cases:
        job = Job(RECORDED, contract, case.partition("/")[0], case, met.total())
        if start <= met[job.cell] < per:
            yield job
        met[job.cell] += 1


def _sizes(family: str, i: int) -> str:
    """Lengths from 33 to 160, prime steps apart; empty where the family has its own."""
    if family not in FREE_SIZES:
        return ""
    return f",queries={33 + i * 37 % 128},keys={33 + i * 53 % 128}"


def search(jobs: Sequence[Job], *, every: int = 1) -> dict[str, Any]:
    """Runs jobs and counts verdicts.

    Args:
        jobs: From ``list_jobs``.
        every: Checks that call the kernel again, which cost the most, take part in every N-th
            case of a cell, N being this number.

    Returns:
        cases by cell, those of them that the kernel does not serve, verdicts by check, values
        compared, alarms with their reason.
    """
    cells: Counter[str] = Counter()
    unserved: Counter[str] = Counter()
    verdicts: dict[str, Counter[str]] = {}
    alarms, values = [], 0
    for job in jobs:
        kernel, use_bits = _kernel(job.kernel)
        case = generate(job.case, contract=job.contract)
        checks = [check for check in CHECKS.values() if _takes_part(check, job, every)]
        found = run(kernel, [case], checks=checks, emit=ignore, use_bits=use_bits)
        cells[job.cell] += 1
        unserved[job.cell] += [finding.check for finding in found] == [SUPPORT]
        for finding in found:
            verdicts.setdefault(finding.check, Counter())[finding.verdict.value] += 1
            values += finding.judged
            if finding.verdict in ALARMS:
                alarms.append(_alarm(job, finding))
    return {
        "cells": dict(cells),
        "unserved": dict(+unserved),
        "verdicts": {check: dict(counts) for check, counts in verdicts.items()},
        "values": values,
        "alarms": alarms,
    }


def _kernel(name: str) -> tuple[Kernel, bool]:
    """A kernel, and whether its bits are compared: not those that the specification itself gave."""
    if name in (RECORDED, FORMATS):
        return ByHash() if name == RECORDED else Steps(), False
    kernel = resolve_kernel(name)
    return kernel, not getattr(kernel, "is_specification", False)


def _takes_part(check: Check, job: Job, every: int) -> bool:
    again = job.kernel != FORMATS and job.number % every == 0  # asked again, steps say the same
    return check.needs != "kernel" or again


def _alarm(job: Job, finding: Finding) -> dict[str, Any]:
    said = {"check": finding.check, "verdict": finding.verdict.value, "reason": finding.reason}
    return {**asdict(job), **said, "worst": str(finding.worst or "")}


def merge(records: Sequence[dict[str, Any]], *, part: bool = False) -> dict[str, Any]:
    """One record of all shards.

    Args:
        records: Records of the shards.
        part: Whether some shards are enough; ``ran`` says which.

    Raises:
        InputError: If shards are missing, doubled or of different searches, or if their cells are
            not those of the search.
    """
    plan = _part_of(records) if part else _search_of(records)
    cells, unserved = (_sum(record[name] for record in records) for name in ("cells", "unserved"))
    due = cells_of(plan)
    _require_whole(cells, due)
    served = {cell: count - unserved[cell] for cell, count in cells.items()}
    checks = dict.fromkeys(check for record in records for check in record["verdicts"])
    return {
        "shards": len(records),
        **plan,
        "cases": sum(served.values()),
        "cells": served,
        "fewest_in_a_cell": min(served.values()),
        "unserved": unserved.total(),
        "values": sum(record["values"] for record in records),
        "verdicts": {
            check: dict(_sum(record["verdicts"].get(check, {}) for record in records))
            for check in checks
        },
        "alarms": [alarm for record in records for alarm in record["alarms"]],
    }


def _search_of(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the search was asked, which all records share."""
    plans = [{name: record[name] for name in PLAN} for record in records]
    shards = [{"shard": (record["shard"], record["shards"])} for record in records]
    require_every_shard(shards, plans)
    return plans[0]


def _part_of(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The record of some shards only, with the numbers of these and of all shards."""
    plans = [{name: record[name] for name in (*PLAN, "shards")} for record in records]
    ran = sorted(record["shard"] for record in records)
    if not ran or len(set(ran)) < len(ran) or any(plan != plans[0] for plan in plans):
        raise InputError(
            f"shards {ran}",
            rule="--part merges shards of one search, each once",
            fix="name each record once",
        )
    return {**plans[0], "ran": ran}


def cells_of(record: Mapping[str, Any]) -> Counter[str]:
    """The cases by cell that a record of a whole or of a part is due.

    Args:
        record: Says what was asked, and of a part which shards ran.
    """
    some = {"families": record.get("families", ()), "start": record.get("start", 0)}
    jobs = list_jobs(record["kernels"], record["per"], **some)
    ran = record.get("ran")
    return Counter(
        job.cell for n, job in enumerate(jobs) if ran is None or n % record["shards"] in ran
    )


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for some in counts:
        total.update(some)
    return total


def _require_whole(cells: Counter[str], due: Counter[str]) -> None:
    if cells != due:
        raise InputError(
            f"{cells.total()} cases in {len(cells)} cells",
            rule=f"the search has {due.total()} in {len(due)}",
            fix="run all shards with this release",
        )


def search_shard(plan: Plan, shard: Shard = WHOLE) -> dict[str, Any]:
    """The record of a shard.

    Args:
        plan: The whole search.
        shard: Which of its jobs.

    Raises:
        InputError: For less than one case, or an unknown kernel.
        UnknownNameError: For an unknown family.
    """
    number, count = shard
    jobs = list(plan.jobs())[number::count]
    return {
        **plan.to_json(),
        "shard": number,
        "shards": count,
        **search(jobs, every=plan.every),
    }
