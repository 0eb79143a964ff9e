"""The parts of a run of ``verify``: one kernel, recording or file of outputs and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dmverify.conformance.adapter import Kernel, contracts_of
from dmverify.conformance.adapter import describe as describe_kernel
from dmverify.conformance.checks import choose_checks
from dmverify.conformance.contracts import judged_by, resolve_contract
from dmverify.conformance.events import CheckDone, Event, Listener, RunStarted
from dmverify.conformance.expectations import failing
from dmverify.conformance.families import generate
from dmverify.conformance.interrupt import until_ctrl_c
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.options import Options
from dmverify.conformance.pipeline import announced
from dmverify.conformance.recorded import Recording
from dmverify.conformance.report.repeat import Repeat, by_call, by_verify
from dmverify.conformance.report.report import Subject
from dmverify.conformance.reproduce import with_histories
from dmverify.conformance.resolve import load_kernel, under_test
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.selection import Asked, choose_pairs
from dmverify.conformance.soak import soak
from dmverify.conformance.tensor_files import AnswersOfFiles
from dmverify.conformance.verdict import Finding
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import Provenance


def judge_answers(files: Sequence[str], options: Options) -> Subject:
    """What was computed elsewhere, as it lies in files.

    Args:
        files: Ids of cases that have outputs.
        options: What ``verify`` was called with.
    """
    kernel = AnswersOfFiles(files, options.contract)
    repeat = partial(by_verify, "", expect=options.expect)
    return _attention(kernel.info.kernel, kernel, options, repeat=repeat)


def judge_chosen(kernel: str | Kernel, options: Options) -> Subject:
    """The kernel that the caller names or gives.

    Args:
        kernel: The kernel, or its name.
        options: What ``verify`` was called with.

    Raises:
        DmverifyError: As ``under_test`` does.
    """
    found = under_test(kernel, timeout=options.timeout, in_process=options.in_process)
    if isinstance(kernel, str):
        return _attention(kernel, found, options)
    name = describe_kernel(found).kernel
    return _attention(name, found, options, repeat=partial(by_call, expect=options.expect))


def judge_live(name: str, options: Options) -> Subject | None:
    """A built-in kernel on this machine, or None where it does not run.

    Args:
        name: Name in the table ``KERNELS``.
        options: What ``verify`` was called with.
    """
    entry = KERNELS[name]
    return _attention(name, load_kernel(entry.target), options) if entry.runs_here() else None


def judge_recorded(recording: Recording, options: Options) -> Subject:
    """What a machine answered once.

    Args:
        recording: What it answered.
        options: What ``verify`` was called with.
    """
    findings = until_stopped(
        options,
        lambda emit: recording.judge(
            options.cases, level=options.level, emit=emit, pool=options.pool
        ),
    )
    repeat = by_verify(recording.name, expect=options.expect)
    return Subject(recording.name, "", recording.by, findings, repeat=repeat)


def _attention(
    name: str, kernel: Kernel, options: Options, *, repeat: Callable[[str], Repeat] | None = None
) -> Subject:
    """Judges a kernel; ``repeat`` makes a contract's repro lines, by default those of a name."""
    contracts = contracts_for((kernel.contract, *contracts_of(kernel)), options)
    asked = cases_for(contracts, options)
    lines = repeat or lines_of(name, options)
    subject = unjudged(name, describe_kernel(kernel), contracts, asked, lines)
    subject = replace(subject, findings=find_all(kernel, subject, asked, options))
    return subject if repeat else repeatable(subject, asked, options)


def lines_of(name: str, options: Options) -> Callable[[str], Repeat]:
    """What makes the repro lines of a kernel that has a name, by contract."""
    return partial(
        by_verify,
        name,
        timeout=options.timeout,
        in_process=options.in_process,
        expect=options.expect,
    )


def unjudged(
    name: str,
    producer: Provenance,
    contracts: tuple[str, ...],
    asked: tuple[Asked, ...],
    lines: Callable[[str], Repeat],
) -> Subject:
    """A kernel of which nothing is found yet.

    Args:
        name: Its name.
        producer: What it says it is.
        contracts: Names of the contracts that cases are asked under, its own first.
        asked: The cases.
        lines: Makes the repro lines of a contract.
    """
    stated, under = get_contract(contracts[0]), dict(asked)
    by = judged_by(stated)
    by += f", each case under one of {len(contracts)} contracts" if len(contracts) > 1 else ""
    return Subject(
        name,
        stated.name,
        by,
        (),
        producer,
        lambda finding, before: lines(_one(under, stated.name, (*before, finding.case)))(
            finding, before
        ),
        contracts=contracts,
    )


def repeatable(subject: Subject, asked: Sequence[Asked], options: Options) -> Subject:
    """The subject, with what its repro lines have to ask first (``reproduce``), if that is asked.

    Args:
        subject: A kernel that has a name, with what was found.
        asked: What the run asked, in order.
        options: What ``verify`` was called with.
    """
    if not options.reproduce or options.endless or options.ctrl_c.pressed:
        return subject
    fails = failing(subject, options.expected)
    return with_histories(subject, asked, fails, timeout=options.timeout)


def _one(under: Mapping[str, str], stated: str, cases: tuple[str, ...]) -> str:
    """The contract of these cases; empty if there are several, which then go without a name."""
    names = {under.get(case, stated) for case in cases}
    return names.pop() if len(names) == 1 else ""


def contracts_for(own: Sequence[str], options: Options) -> tuple[str, ...]:
    """The contracts that cases are asked under, the kernel's own first.

    Args:
        own: Those that it serves, its own first.
        options: What ``verify`` was called with.
    """
    if options.contract is not None:
        return (options.contract,)
    names = own[:1] if options.endless else own
    return tuple(dict.fromkeys(resolve_contract(name).name for name in names))


def cases_for(contracts: tuple[str, ...], options: Options) -> tuple[Asked, ...]:
    """The cases, each with its contract; none if they have no end.

    Args:
        contracts: From ``contracts_for``.
        options: What ``verify`` was called with.

    Raises:
        UnknownNameError: For a wrong id of a case.
    """
    if options.endless:
        return ()
    asked = choose_pairs(options.cases, options.level, contracts, seed=options.seed)
    for case_id, contract in asked if options.cases else ():
        generate(case_id, contract=contract)  # a wrong id is told before the first question
    return asked


def find_all(
    kernel: Kernel, subject: Subject, asked: tuple[Asked, ...], options: Options
) -> tuple[Finding, ...]:
    """Judges a kernel here.

    Args:
        kernel: The kernel under test.
        subject: From ``unjudged``.
        asked: The cases.
        options: What ``verify`` was called with.
    """
    rows = choose_checks(options.checks)
    fails = failing(subject, options.expected) if options.stop else lambda _: False
    how = How(rows, options.listener, pool=options.pool, stops=fails)
    if options.endless:
        minutes, contract = options.minutes, subject.contract
        return soak(kernel, contract, seed=options.seed, how=how, minutes=minutes)
    cases = (generate(case_id, contract=contract) for case_id, contract in asked)
    started = RunStarted(describe_kernel(kernel).kernel, subject.contract, len(asked))
    with announced(started, options.listener):
        return until_stopped(
            options, lambda emit: judge_cases(kernel, cases, replace(how, emit=emit))
        )


def until_stopped(
    options: Options, judge: Callable[[Listener], Iterable[Finding]]
) -> tuple[Finding, ...]:
    """All findings, or those until Ctrl-C is pressed, of a case that was not finished too.

    Args:
        options: What ``verify`` was called with.
        judge: Judges one case after the other, and tells a listener.
    """
    kept: list[Finding] = []

    def keep(event: Event) -> None:
        if isinstance(event, CheckDone):
            kept.append(event.finding)
        options.listener(event)

    with until_ctrl_c(options.ctrl_c):
        for _ in judge(keep):
            pass  # what is kept is kept of a case that is not finished, too
    return tuple(kept)
