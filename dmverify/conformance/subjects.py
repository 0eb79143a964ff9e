"""The parts of a run of ``verify``: one kernel, recording or file of outputs and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dmverify.conformance.adapter import Kernel, contracts_of
from dmverify.conformance.adapter import describe as describe_kernel
from dmverify.conformance.checks import CHECKS, get_check
from dmverify.conformance.contracts import resolve_contract
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
        name: Of the table ``KERNELS``.
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
    findings = _until_ctrl_c(
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
    named = partial(
        by_verify,
        name,
        timeout=options.timeout,
        in_process=options.in_process,
        expect=options.expect,
    )
    lines = repeat or named
    contracts = _contracts(kernel, options)
    stated, asked = get_contract(contracts[0]), _asked(contracts, options)
    by = "its bits" if stated.bit_exact else "certified enclosures and the exact ledger"
    by += f", each case under one of {len(contracts)} contracts" if len(contracts) > 1 else ""
    under = dict(asked)
    subject = Subject(
        name,
        stated.name,
        by,
        (),
        describe_kernel(kernel),
        lambda finding, before: lines(_one(under, stated.name, (*before, finding.case)))(
            finding, before
        ),
        contracts=contracts,
    )
    subject = replace(subject, findings=_findings(kernel, subject, asked, options))
    if repeat or not options.reproduce or options.endless or options.ctrl_c.pressed:
        return subject
    fails = failing(subject, options.expected)
    return with_histories(subject, asked, fails, timeout=options.timeout)


def _one(under: Mapping[str, str], stated: str, cases: tuple[str, ...]) -> str:
    """The contract of these cases; empty if there are several, which then go without a name."""
    names = {under.get(case, stated) for case in cases}
    return names.pop() if len(names) == 1 else ""


def _contracts(kernel: Kernel, options: Options) -> tuple[str, ...]:
    """The contracts that cases are asked under, the kernel's own first."""
    if options.contract is not None:
        return (options.contract,)
    if options.endless:
        return (resolve_contract(kernel.contract).name,)
    names = (kernel.contract, *contracts_of(kernel))
    return tuple(dict.fromkeys(resolve_contract(name).name for name in names))


def _asked(contracts: tuple[str, ...], options: Options) -> tuple[Asked, ...]:
    """The cases, each with its contract; none if they have no end."""
    if options.endless:
        return ()
    asked = choose_pairs(options.cases, options.level, contracts, seed=options.seed)
    for case_id, contract in asked if options.cases else ():
        generate(case_id, contract=contract)  # a wrong id is told before the first question
    return asked


def _findings(
    kernel: Kernel, subject: Subject, asked: tuple[Asked, ...], options: Options
) -> tuple[Finding, ...]:
    rows = tuple(get_check(name) for name in options.checks) or tuple(CHECKS.values())
    fails = failing(subject, options.expected) if options.stop else lambda _: False
    how = How(rows, options.listener, pool=options.pool, stops=fails)
    if options.endless:
        minutes, contract = options.minutes, subject.contract
        return soak(kernel, contract, seed=options.seed, how=how, minutes=minutes)
    cases = (generate(case_id, contract=contract) for case_id, contract in asked)
    started = RunStarted(describe_kernel(kernel).kernel, subject.contract, len(asked))
    with announced(started, options.listener):
        return _until_ctrl_c(
            options, lambda emit: judge_cases(kernel, cases, replace(how, emit=emit))
        )


def _until_ctrl_c(
    options: Options, judge: Callable[[Listener], Iterable[Finding]]
) -> tuple[Finding, ...]:
    """All findings, or those until Ctrl-C is pressed, of a case that was not finished too."""
    kept: list[Finding] = []

    def keep(event: Event) -> None:
        if isinstance(event, CheckDone):
            kept.append(event.finding)
        options.listener(event)

    with until_ctrl_c(options.ctrl_c):
        for _ in judge(keep):
            pass  # what is kept is kept of a case that is not finished, too
    return tuple(kept)
