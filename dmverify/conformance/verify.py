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

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from dmverify.conformance.accuracy import require_limits
from dmverify.conformance.adapter import Kernel
from dmverify.conformance.concluded import concluded
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.events import Listener, ignore
from dmverify.conformance.expectations import (
    failing,
    read_expectations,
)
from dmverify.conformance.options import (
    Options,
    may_divide,
    read_seed,
    require_fraction,
    require_level,
    require_spreadable,
)
from dmverify.conformance.pool import Pool
from dmverify.conformance.recorded import offered_recordings, recording_names
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.soak import describe as describe_soak
from dmverify.conformance.spread import Spread
from dmverify.conformance.spread.run import judge_spread, shard_note
from dmverify.conformance.subjects import judge_answers, judge_chosen, judge_live, judge_recorded
from dmverify.conformance.tensor_files import Source, name_cases
from dmverify.conformance.tensor_files.answers import files_with_answers
from dmverify.conformance.words import several
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract

DEFAULT_KERNEL = "simulation"
STOPPED = "stopped after the first case that fails (-x): what follows was not judged"


def verify(
    kernel: str | Kernel | None = None,
    contract: str | os.PathLike[str] | Contract | None = None,
    *,
    level: str = "smoke",
    seed: int | str = 0,
    cases: Sequence[str | Case] = (),
    inputs: Sequence[str | os.PathLike[str] | Source] = (),
    checks: Sequence[str] = (),
    timeout: float | None = None,
    in_process: bool = False,
    minutes: float | None = None,
    expect: str | os.PathLike[str] | None = None,
    min_served: float = 0.0,
    max_error: Mapping[str, float] = MappingProxyType({}),
    jobs: int = 1,
    stop: bool = False,
    reproduce: bool = False,
    spread: Spread | None = None,
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
        jobs: Processes that judge, each with a kernel of its own (``spread``), or that make
            references for this one (``pool``), where a kernel is an object, a machine shows a GPU,
            or cases have no end; 1 does all of it here. What is found does not depend on it, unless
            a kernel remembers what it was asked.
        stop: Whether to stop after the first case that fails; what was judged by then is reported.
        reproduce: Whether a case of a named kernel that fails is asked again in a new process, so
            that the line that repeats it says what has to be asked before it.
        spread: How the cases of a named kernel are spread over a cluster, or which shard of them is
            judged (``spread``); what is found does not depend on it.
        listener: Called with every event of the run.

    Returns:
        The report; ``report.ok`` says whether everything conforms. After Ctrl-C it holds what was
        judged by then, and says that it was interrupted.

    Raises:
        UnknownNameError: For a name that does not exist.
        ContractError: For a contract whose fields are wrong or exclude each other.
        InputError: For a seed below 0, a timeout for a kernel object, a bad file of expectations,
            a fraction beyond 0 and 1, a limit of no output, one text where several are due, a
            kernel that is the specification itself, minutes of a level that has an end, or ``soak``
            of something else than one kernel.
        KernelError: If the kernel cannot be loaded.
    """
    ids, own_contract = name_cases(cases, inputs)
    named = own_contract if contract is None else contract
    options = Options(
        contract=None if named is None else resolve_contract(named).name,
        level=level,
        seed=read_seed(seed),
        cases=ids,
        checks=tuple(dict.fromkeys(several("checks", checks))),
        timeout=timeout,
        in_process=in_process,
        minutes=minutes,
        expect=None if expect is None else Path(expect),
        expected=() if expect is None else read_expectations(Path(expect)),
        stop=stop,
        reproduce=reproduce,
        listener=listener,
        min_served=min_served,
        max_error=require_limits(max_error),
        spread=spread,
    )
    require_level(kernel, options)
    require_fraction(min_served)
    if spread is not None:
        require_spreadable(kernel, options)
    with nullcontext() if jobs == 1 else Pool(jobs) as pool:
        judged = _judged(kernel, replace(options, pool=pool))
    return concluded(judged, options)


def _judged(kernel: str | Kernel | None, options: Options) -> Report:
    level, seed = options.level, options.seed
    if isinstance(kernel, str) and kernel in recording_names():
        recording = offered_recordings()[kernel]
        return Report(
            (judge_recorded(recording, options),), level, seed, notes=recording.notes(level)
        )
    if kernel is None and (files := files_with_answers(options.cases)):
        return Report((judge_answers(files, options),), level, seed)
    if isinstance(kernel, str) and options.spread is not None:
        subject = judge_spread(kernel, options)
        notes = (*_stopped(subject, options), *shard_note(options.spread.shard))
        return Report((subject,), level, seed, notes=notes)
    chosen = DEFAULT_KERNEL if kernel is None else kernel
    if isinstance(chosen, str) and may_divide(chosen, options):
        subject = judge_spread(chosen, options)
    else:
        subject = judge_chosen(chosen, options)
    if kernel is not None:
        end = (describe_soak(subject.findings),) if options.endless else ()
        return Report((subject,), level, seed, notes=(*end, *_stopped(subject, options)))
    if options.cases or options.checks:
        return Report((subject,), level, seed)
    return _with_recordings(subject, options)


def _with_recordings(subject: Subject, options: Options) -> Report:
    """The default kernel, and what is offered as recorded, or its kernel where that runs."""
    first: list[Subject] = []
    last: list[Subject] = []
    notes = _stopped(subject, options)
    of_nothing_named = options.of_nothing_named
    for recording in () if notes else offered_recordings().values():
        if options.ctrl_c.pressed or notes[-1:] == (STOPPED,):
            break
        live = judge_live(recording.kernel, of_nothing_named) if recording.kernel else None
        judged = judge_recorded(recording, of_nothing_named) if live is None else live
        (first if recording.kernel else last).append(judged)
        said = recording.notes(options.level) if live is None else ()
        notes = (*notes, *said, *_stopped(judged, options))
    return Report((*first, subject, *last), options.level, options.seed, notes=notes)


def _stopped(subject: Subject, options: Options) -> tuple[str, ...]:
    """The note that a failure ended the run, if one did."""
    ends = options.stop and any(map(failing(subject, options.expected), subject.findings))
    return (STOPPED,) if ends else ()
