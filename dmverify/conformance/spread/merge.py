"""The report of all shards: that of one run, since a run is its plan and what each case gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dmverify.conformance.concluded import concluded
from dmverify.conformance.events import ignore
from dmverify.conformance.options import Options
from dmverify.conformance.report.report import Report
from dmverify.conformance.spread.findings_file import read_findings
from dmverify.conformance.spread.plan import ONCE, Kept, Plan
from dmverify.conformance.spread.run import subject_of
from dmverify.conformance.tensor_files import Source, bring_file
from dmverify.conformance.verdict import Finding
from dmverify.errors import InputError


def merge(paths: Sequence[Path]) -> Report:
    """The report of the run whose shards these are.

    Args:
        paths: A folder or file of each shard, in any order.

    Raises:
        InputError: Unless they are every shard of one run, each once and each at its end.
    """
    parts = sorted(map(read_findings, paths), key=lambda part: part.plan.shard)
    _require_whole(parts, paths)
    plan = parts[0].plan
    for path, prefix, causal, scale in plan.asking.files:
        bring_file(Source(Path(path), prefix, causal, scale))  # repro lines name the file
    options = _options(plan)
    subject = replace(
        subject_of(plan, options),
        findings=tuple(_findings(plan, parts)),
        before={case: ids for part in parts for case, ids in part.before.items()},
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
    return concluded(Report((subject,), plan.level, plan.seed), options)


def _require_whole(parts: Sequence[Kept], paths: Sequence[Path]) -> None:
    shards = [part.plan.shard for part in parts]
    said = ", ".join(f"{number}/{count}" for number, count in shards)
    if not parts or shards != [(number, len(parts)) for number in range(len(parts))]:
        raise InputError(
            f"shards {said or 'none'}",
            rule="a merge takes every shard of one run, each once",
            fix="name the folders of all shards, each once",
        )
    for part in parts[1:]:
        if differs := part.plan.differs(parts[0].plan, but=("shard",)):
            raise InputError(
                f"shards {said}, of which {part.plan.shard[0]} has another {differs}",
                rule="all shards come from one run: the same kernel, machine, options and version",
                fix="run them all with the same command but for --shard and --out",
            )


def _findings(plan: Plan, parts: Sequence[Kept]) -> Iterator[Finding]:
    """All findings in the order of one run, which runs the checks of a kernel once."""
    waiting = set(ONCE)
    judged = {place: found for part in parts for place, found in part.judged.items()}
    for place in range(len(plan.asked)):
        found = judged[place]
        yield from (f for f in found if f.check not in ONCE or f.check in waiting)
        waiting -= {finding.check for finding in found}


def _options(plan: Plan) -> Options:
    asking = plan.asking
    return Options(
        contract=None,
        level=plan.level,
        seed=plan.seed,
        cases=(),
        checks=plan.checks,
        timeout=asking.timeout,
        in_process=asking.in_process,
        minutes=None,
        expect=Path(plan.expect) if plan.expect else None,
        expected=plan.expected,
        stop=False,
        reproduce=False,
        listener=ignore,
        min_served=plan.min_served,
        max_error=plan.max_error,
    )
