"""``verify``: a kernel in, a report out.

| called with | judges |
|---|---|
| a kernel | that kernel under its contract, or the one named |
| the name of a recording | what was recorded (``recorded``) |
| nothing, and files with outputs | these outputs (``tensor_files``) |
| nothing | the torch simulation on drawn cases and captures, and every recording that is offered, |
| | or the kernel that gave it where that runs |

It never passes by checking the specification against itself: a kernel that says it is the
specification (``is_specification``) is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from dmverify.conformance.adapter import Kernel, contracts_of
from dmverify.conformance.adapter import describe as describe_kernel
from dmverify.conformance.checks import CHECKS, get_check
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.events import (
    CheckDone,
    Event,
    Listener,
    RunStarted,
    ignore,
)
from dmverify.conformance.expectations import (
    Expectation,
    apply_expectations,
    failing,
    read_expectations,
)
from dmverify.conformance.families import generate
from dmverify.conformance.interrupt import Stop, until_ctrl_c
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.pipeline import announced
from dmverify.conformance.pool import Pool
from dmverify.conformance.recorded import Recording, offered_recordings, recording_names
from dmverify.conformance.report.repeat import Repeat, by_call, by_verify
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.reproduce import with_histories
from dmverify.conformance.resolve import load_kernel, under_test
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.selection import SOAK, Asked, choose_pairs, get_level
from dmverify.conformance.soak import describe as describe_soak
from dmverify.conformance.soak import soak
from dmverify.conformance.tensor_files import AnswersOfFiles, Source, name_cases
from dmverify.conformance.tensor_files.answers import files_with_answers
from dmverify.conformance.verdict import Finding
from dmverify.errors import InputError
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract, get_contract

DEFAULT_KERNEL = "simulation"
RANDOM, RANDOM_BITS = "random", 48
STOPPED = "stopped after the first case that fails (-x): what follows was not judged"


def verify(
    kernel: str | Kernel | None = None,
    contract: str | Contract | None = None,
    *,
    level: str = "smoke",
    seed: int | str = 0,
    cases: Sequence[str | Case] = (),
    inputs: Sequence[str | Source] = (),
    checks: Sequence[str] = (),
    timeout: float | None = None,
    in_process: bool = False,
    minutes: float | None = None,
    expect: Path | None = None,
    min_served: float = 0.0,
    max_error: Mapping[str, float] = MappingProxyType({}),
    jobs: int = 1,
    stop: bool = False,
    reproduce: bool = False,
    listener: Listener = ignore,
) -> Report:
    """Judges a kernel by a contract.

    Args:
        kernel: A kernel, its name (``dmverify list kernels``, or ``pkg.module:object``), or None
            for what ships with the project.
        contract: A contract, its name or the path of its file (``contracts``); None takes the
            kernel's own, or for one that serves several (``adapter.ServesSeveral``) the one that
            the level asks each case under.
        level: ``smoke``, ``full``, or ``soak``, which runs until Ctrl-C and reports what is judged
            by then.
        seed: First seed of the drawn cases, or ``random`` for one that nobody knows beforehand;
            the report names it.
        cases: Case ids to run instead of a level, or patterns of ids (``*``, ``?``, ``[...]``) that
            mean whatever matches of the level and of all listed variants; or cases of the caller's
            own, whose contract is taken unless another is named.
        inputs: Files of tensors, ``FILE`` or ``FILE:PREFIX``: all their cases are run, or those
            that ``cases`` names. With outputs in them and no kernel, the outputs are judged.
        checks: Ids of checks to run instead of all.
        timeout: Seconds for one answer; None sets no limit.
        in_process: Whether a named kernel runs in this process. By default it runs in one of its
            own unless the project ships it (``resolve``); an object always runs here, where a crash
            of it ends the caller, and one that deceives its judge on purpose can.
        minutes: After how many ``soak`` stops by itself.
        expect: A file of expectations (see ``dmverify.conformance.expectations``).
        min_served: The fraction of the cases, from 0 to 1, that the kernel must not decline.
        max_error: By output, the largest error from float64 attention (root mean square, relative;
            LSE in nats) that a case may have.
        jobs: Processes that make references ahead of the judge (``pool``); 1 makes them here. What
            is found does not depend on it.
        stop: Whether to stop after the first case that fails; what was judged by then is reported.
        reproduce: Whether a case of a named kernel that fails is asked again in a new process, so
            that the line that repeats it says what has to be asked before it.
        listener: Called with every event of the run.

    Returns:
        The report; ``report.ok`` says whether everything conforms. After Ctrl-C it holds what was
        judged by then, and says that it was interrupted.

    Raises:
        UnknownNameError: For a name that does not exist.
        ContractError: For a contract whose fields are wrong or exclude each other.
        InputError: For a seed below 0, a timeout for a kernel object, a bad file of expectations,
            a fraction beyond 0 and 1, a kernel that is the specification itself, minutes of a level
            that has an end, or ``soak`` of something else than one kernel.
        KernelError: If the kernel cannot be loaded.
    """
    ids, own_contract = name_cases(cases, inputs)
    named = own_contract if contract is None else contract
    options = _Options(
        contract=None if named is None else resolve_contract(named).name,
        level=level,
        seed=_seed(seed),
        cases=ids,
        checks=tuple(checks),
        timeout=timeout,
        in_process=in_process,
        minutes=minutes,
        expect=expect,
        expected=() if expect is None else read_expectations(expect),
        stop=stop,
        reproduce=reproduce,
        listener=listener,
    )
    _require_level(kernel, options)
    _require_fraction(min_served)
    with nullcontext() if jobs == 1 else Pool(jobs) as pool:
        judged = _judged(kernel, replace(options, pool=pool))
    notes = tuple(note for subject in judged.subjects for note in subject.notes)
    report = replace(
        judged,
        notes=(*judged.notes, *notes),
        min_served=min_served,
        max_error=dict(max_error),
        interrupted=options.ctrl_c.pressed,
    )
    return report if expect is None else apply_expectations(report, options.expected)


@dataclass(frozen=True)
class _Options:
    """What ``verify`` was called with, beside the kernel."""

    contract: str | None
    level: str
    seed: int
    cases: tuple[str, ...]
    checks: tuple[str, ...]
    timeout: float | None
    in_process: bool
    minutes: float | None
    expect: Path | None
    expected: tuple[Expectation, ...]
    stop: bool
    reproduce: bool
    listener: Listener
    pool: Pool | None = None
    ctrl_c: Stop = field(default_factory=Stop)

    @property
    def endless(self) -> bool:
        """Whether the cases have no end."""
        return get_level(self.level).seeds is None and not self.cases

    @property
    def of_nothing_named(self) -> _Options:
        """For what is judged beside the kernel that was chosen."""
        return replace(
            self, contract=None, cases=(), checks=(), timeout=None, in_process=False, minutes=None
        )


def _seed(seed: int | str) -> int:
    if seed == RANDOM:
        return secrets.randbits(RANDOM_BITS)
    if not isinstance(seed, int) or seed < 0:
        raise InputError(
            f"seed {seed}", rule="a seed is a number >= 0, or 'random'", fix="pass one of these"
        )
    return seed


def _require_level(kernel: object, options: _Options) -> None:
    level, minutes = options.level, options.minutes
    if minutes is not None and not options.endless:
        raise InputError(
            f"minutes={minutes:g} of level {level}",
            rule=f"only the level {SOAK} is ended by time, and named cases have no level",
            fix=f"add --level {SOAK}, or leave --minutes out",
        )
    recorded = isinstance(kernel, str) and kernel in recording_names()
    if options.endless and (kernel is None or recorded):
        raise InputError(
            f"level {level} without a kernel that runs",
            rule=f"{level} asks one kernel again and again, and recordings do not change",
            fix="name a kernel, such as simulation",
        )


def _require_fraction(fraction: float) -> None:
    if not 0 <= fraction <= 1:
        raise InputError(
            f"min_served={fraction:g}",
            rule="what has to be served is a fraction of the cases",
            fix="pass a number from 0 to 1",
        )


def _judged(kernel: str | Kernel | None, options: _Options) -> Report:
    level, seed = options.level, options.seed
    if isinstance(kernel, str) and kernel in recording_names():
        recording = offered_recordings()[kernel]
        return Report((_recorded(recording, options),), level, seed, notes=recording.notes(level))
    if kernel is None and (files := files_with_answers(options.cases)):
        return Report((_answers(files, options),), level, seed)
    subject = _chosen(DEFAULT_KERNEL if kernel is None else kernel, options)
    if kernel is not None:
        end = (describe_soak(subject.findings),) if options.endless else ()
        return Report((subject,), level, seed, notes=(*end, *_stopped(subject, options)))
    if options.cases or options.checks:
        return Report((subject,), level, seed)
    return _with_recordings(subject, options)


def _with_recordings(subject: Subject, options: _Options) -> Report:
    """The default kernel, and what is offered as recorded, or its kernel where that runs."""
    first: list[Subject] = []
    last: list[Subject] = []
    notes = _stopped(subject, options)
    of_nothing_named = options.of_nothing_named
    for recording in () if notes else offered_recordings().values():
        if options.ctrl_c.pressed or notes[-1:] == (STOPPED,):
            break
        live = _live(recording.kernel, of_nothing_named) if recording.kernel else None
        judged = _recorded(recording, of_nothing_named) if live is None else live
        (first if recording.kernel else last).append(judged)
        said = recording.notes(options.level) if live is None else ()
        notes = (*notes, *said, *_stopped(judged, options))
    return Report((*first, subject, *last), options.level, options.seed, notes=notes)


def _stopped(subject: Subject, options: _Options) -> tuple[str, ...]:
    """The note that a failure ended the run, if one did."""
    ends = options.stop and any(map(failing(subject, options.expected), subject.findings))
    return (STOPPED,) if ends else ()


def _answers(files: Sequence[str], options: _Options) -> Subject:
    """What was computed elsewhere, as it lies in files."""
    kernel = AnswersOfFiles(files, options.contract)
    repeat = partial(by_verify, "", expect=options.expect)
    return _attention(kernel.info.kernel, kernel, options, repeat=repeat)


def _chosen(kernel: str | Kernel, options: _Options) -> Subject:
    """The kernel that the caller names or gives."""
    found = under_test(kernel, timeout=options.timeout, in_process=options.in_process)
    if isinstance(kernel, str):
        return _attention(kernel, found, options)
    name = describe_kernel(found).kernel
    return _attention(name, found, options, repeat=partial(by_call, expect=options.expect))


def _live(name: str, options: _Options) -> Subject | None:
    """A built-in kernel on this machine, or None where it does not run."""
    entry = KERNELS[name]
    return _attention(name, load_kernel(entry.target), options) if entry.runs_here() else None


def _recorded(recording: Recording, options: _Options) -> Subject:
    findings = _until_ctrl_c(
        options,
        lambda emit: recording.judge(
            options.cases, level=options.level, emit=emit, pool=options.pool
        ),
    )
    repeat = by_verify(recording.name, expect=options.expect)
    return Subject(recording.name, "", recording.by, findings, repeat=repeat)


def _attention(
    name: str, kernel: Kernel, options: _Options, *, repeat: Callable[[str], Repeat] | None = None
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


def _contracts(kernel: Kernel, options: _Options) -> tuple[str, ...]:
    """The contracts that cases are asked under, the kernel's own first."""
    if options.contract is not None:
        return (options.contract,)
    if options.endless:
        return (resolve_contract(kernel.contract).name,)
    names = (kernel.contract, *contracts_of(kernel))
    return tuple(dict.fromkeys(resolve_contract(name).name for name in names))


def _asked(contracts: tuple[str, ...], options: _Options) -> tuple[Asked, ...]:
    """The cases, each with its contract; none if they have no end."""
    if options.endless:
        return ()
    asked = choose_pairs(options.cases, options.level, contracts, seed=options.seed)
    for case_id, contract in asked if options.cases else ():
        generate(case_id, contract=contract)  # a wrong id is told before the first question
    return asked


def _findings(
    kernel: Kernel, subject: Subject, asked: tuple[Asked, ...], options: _Options
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
    options: _Options, judge: Callable[[Listener], Iterable[Finding]]
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
