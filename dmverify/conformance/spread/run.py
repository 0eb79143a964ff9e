"""A kernel judged in parts: over workers elsewhere, or one shard of the cases here."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from dmverify.conformance.adapter import contracts_of, describe
from dmverify.conformance.checks import choose_checks
from dmverify.conformance.events import CaseDone, CheckDone, Event, RunStarted
from dmverify.conformance.expectations import failing
from dmverify.conformance.options import Options, may_divide
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.report.report import Subject
from dmverify.conformance.resolve import under_test
from dmverify.conformance.spread.block import Asking, Introduced, Workers
from dmverify.conformance.spread.findings_file import FindingsFile
from dmverify.conformance.spread.in_order import InOrder
from dmverify.conformance.spread.lengths import lengths_of
from dmverify.conformance.spread.plan import Opened, Plan, Spread, version_and_texts
from dmverify.conformance.spread.process_workers import with_processes
from dmverify.conformance.subjects import (
    cases_for,
    contracts_for,
    find_all,
    lines_of,
    repeatable,
    unjudged,
    until_stopped,
)
from dmverify.conformance.tensor_files import sources_of
from dmverify.conformance.verdict import Finding
from dmverify.shards import WHOLE, Shard


def shard_note(shard: Shard) -> tuple[str, ...]:
    """What a report of a shard says of itself; nothing of a whole run."""
    number, count = shard
    return () if shard == WHOLE else (f"shard {number}/{count} of the run; 'dmverify merge' joins",)


def judge_spread(kernel: str, options: Options) -> Subject:
    """Judges a shard of the cases, or all of them, over workers or here.

    Args:
        kernel: Its name.
        options: What ``verify`` was called with.

    Raises:
        DmverifyError: For wrong names, a kernel that cannot be loaded, a file of another run.
    """
    spread = options.spread or Spread()
    files = tuple(
        (str(one.path), one.prefix, one.causal, one.softmax_scale)
        for one in sources_of(options.cases)
    )
    asking = Asking(kernel, options.timeout, options.in_process, spread.gpus, files)
    opened = spread.workers or own_workers(kernel, options)
    if opened is None:
        return _judge_here(asking, options)
    choose_checks(options.checks)  # or a wrong name is found by workers
    with opened(asking) as workers:
        plan = _plan(asking, workers.introduce(), options)
        with _file(plan, spread) as file:
            return _judge_there(plan, workers, file, options)


def own_workers(kernel: str, options: Options) -> Opened | None:
    """The processes of ``-j``; None if the kernel is asked by this one."""
    if options.pool is None or not may_divide(kernel, options):
        return None
    return with_processes(options.pool.jobs)


def subject_of(plan: Plan, options: Options) -> Subject:
    """The kernel of a plan, of which nothing is found yet.

    Args:
        plan: What is asked.
        options: What ``verify`` was called with, or would be for the whole run.
    """
    name = plan.asking.kernel
    return unjudged(name, plan.producer, plan.contracts, plan.asked, lines_of(name, options))


def _judge_there(
    plan: Plan, workers: Workers, file: FindingsFile | None, options: Options
) -> Subject:
    subject = subject_of(plan, options)
    fails = failing(subject, options.expected) if options.stop else lambda _: False
    lengths = lengths_of(plan.asked, plan.places)
    run = InOrder(plan, workers, file, lengths=lengths, in_turn=options.stop)
    started = RunStarted(plan.producer.kernel, subject.contract, len(plan.places))
    with announced(started, options.listener):
        found = until_stopped(options, lambda emit: each(run.work(), emit, stops=fails))
    judged = replace(subject, findings=found)
    if not plan.asking.gpus:  # what is asked again is asked here, where perhaps no GPU is
        judged = repeatable(judged, plan.part, options)
    if file and run.complete:
        file.end(dict(judged.before), judged.notes)
    return judged


def _judge_here(asking: Asking, options: Options) -> Subject:
    """A shard: judged as a whole run is, and kept case by case."""
    kernel = under_test(asking.kernel, timeout=asking.timeout, in_process=asking.in_process)
    own = (kernel.contract, *contracts_of(kernel))
    plan = _plan(asking, Introduced(describe(kernel), own), options)
    subject = subject_of(plan, options)
    with _file(plan, options.spread or Spread()) as file:
        places = iter(plan.places)
        of_case: list[Finding] = []

        def listen(event: Event) -> None:
            if isinstance(event, CheckDone):
                of_case.append(event.finding)
            elif isinstance(event, CaseDone):
                if file:
                    file.keep(next(places), tuple(of_case))
                of_case.clear()
            options.listener(event)

        heard = replace(options, listener=listen)
        found = find_all(kernel, subject, plan.part, heard)
        judged = repeatable(replace(subject, findings=found), plan.part, options)
        if file and next(places, None) is None:
            file.end(dict(judged.before), judged.notes)
    return judged


def _plan(asking: Asking, introduced: Introduced, options: Options) -> Plan:
    spread = options.spread or Spread()
    contracts = contracts_for(introduced.contracts, options)
    return Plan(
        **version_and_texts(contracts),
        asking=asking,
        producer=introduced.producer,
        asked=cases_for(contracts, options),
        checks=options.checks,
        level=options.level,
        seed=options.seed,
        expect=str(options.expect or ""),
        expected=options.expected,
        min_served=options.min_served,
        max_error=dict(options.max_error),
        shard=spread.shard,
    )


def _file(plan: Plan, spread: Spread) -> AbstractContextManager[FindingsFile | None]:
    if spread.keep is None:
        return nullcontext()
    return FindingsFile(spread.keep, plan, resume=spread.resume if spread.workers else None)
