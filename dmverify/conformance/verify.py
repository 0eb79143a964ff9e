"""``verify``: a kernel in, a report out.

| called with | judges |
|---|---|
| a kernel | that kernel under its contract, or the one named |
| nothing, on a Hopper GPU | the bundled kernel, built and run, and the two rows below |
| nothing, elsewhere | outputs of the bundled kernel recorded on an H200, bit for bit, and |
| | the torch simulation on drawn cases and captures; the instructions of an H200 |

It never passes by checking the specification against itself: a kernel that says it is the
specification (``is_specification``) is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from dmverify.conformance.adapter import Kernel, require_kernel, require_unnamed
from dmverify.conformance.certify import describe_build
from dmverify.conformance.checks import CHECKS, get_check
from dmverify.conformance.events import Listener, ignore
from dmverify.conformance.expectations import apply_expectations, read_expectations
from dmverify.conformance.families import generate
from dmverify.conformance.instructions import INSTRUCTIONS, judge_recordings
from dmverify.conformance.recordings import RECORDED, describe, judge_shipped
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import run
from dmverify.conformance.selection import SOAK, get_level, select
from dmverify.conformance.soak import describe as describe_soak
from dmverify.conformance.soak import soak
from dmverify.errors import InputError
from dmverify.spec.contracts import get_contract

DEFAULT_KERNEL = "simulation"
BUNDLED = "bundled"
RANDOM, RANDOM_BITS = "random", 48


def verify(
    kernel: str | Kernel | None = None,
    contract: str | None = None,
    *,
    level: str = "smoke",
    seed: int | str = 0,
    cases: Sequence[str] = (),
    checks: Sequence[str] = (),
    timeout: float | None = None,
    minutes: float | None = None,
    expect: Path | None = None,
    listener: Listener = ignore,
) -> Report:
    """Judges a kernel by a contract.

    Args:
        kernel: A kernel, its name (``dmverify list kernels``, or ``pkg.module:object``), or None
            for what ships with the project.
        contract: Name of a contract; None takes the kernel's own.
        level: ``smoke``, ``full``, or ``soak``, which runs until Ctrl-C and reports what is judged
            by then.
        seed: First seed of the drawn cases, or ``random`` for one that nobody knows beforehand;
            the report names it.
        cases: Case ids to run instead of a level.
        checks: Ids of checks to run instead of all.
        timeout: Seconds for one answer; a named kernel then runs in a process of its own.
        minutes: After how many ``soak`` stops by itself.
        expect: A file of expectations (see ``dmverify.conformance.expectations``).
        listener: Called with every event of the run.

    Returns:
        The report; ``report.ok`` says whether everything conforms.

    Raises:
        UnknownNameError: For a name that does not exist.
        InputError: For a seed below 0, a timeout for a kernel object, a bad file of expectations,
            a kernel that is the specification itself, minutes of a level that has an end, or
            ``soak`` of something else than one kernel.
        KernelError: If the kernel cannot be loaded.
    """
    first = _seed(seed)
    _require_level(level, kernel, cases, minutes)
    expected = () if expect is None else read_expectations(expect)
    report = _judged(kernel, contract, level, first, cases, checks, timeout, minutes, listener)
    return report if expect is None else apply_expectations(report, expected)


def _seed(seed: int | str) -> int:
    if seed == RANDOM:
        return secrets.randbits(RANDOM_BITS)
    if not isinstance(seed, int) or seed < 0:
        raise InputError(
            f"seed {seed}", rule="a seed is a number >= 0, or 'random'", fix="pass one of these"
        )
    return seed


def _require_level(
    level: str, kernel: str | Kernel | None, cases: Sequence[str], minutes: float | None
) -> None:
    endless = get_level(level).seeds is None and not cases
    if minutes is not None and not endless:
        raise InputError(
            f"minutes={minutes:g} of level {level}",
            rule=f"only the level {SOAK} is ended by time, and named cases have no level",
            fix=f"add --level {SOAK}, or leave --minutes out",
        )
    if endless and (kernel is None or kernel in (INSTRUCTIONS, RECORDED)):
        raise InputError(
            f"level {level} without a kernel that runs",
            rule=f"{level} asks one kernel again and again, and recordings do not change",
            fix="name a kernel, such as simulation",
        )


def _judged(
    kernel: str | Kernel | None,
    contract: str | None,
    level: str,
    seed: int,
    cases: Sequence[str],
    checks: Sequence[str],
    timeout: float | None,
    minutes: float | None,
    listener: Listener,
) -> Report:
    if kernel == INSTRUCTIONS:
        return Report((_instructions(cases, listener),), level, seed)
    if kernel == RECORDED:
        return Report((_recorded(cases, level, listener),), level, seed, notes=(describe(),))
    chosen = _kernel(DEFAULT_KERNEL if kernel is None else kernel, timeout)
    name = kernel if isinstance(kernel, str) else chosen.info.kernel
    subjects = [_attention(name, chosen, contract, level, seed, cases, checks, minutes, listener)]
    if kernel is not None:
        endless = level == SOAK and not cases
        notes = (describe_soak(subjects[0].findings),) if endless else ()
        return Report(tuple(subjects), level, seed, notes=notes)
    if cases or checks:
        return Report(tuple(subjects), level, seed)
    subjects.append(_instructions((), listener))
    live = _live(level, seed, listener)
    subjects.insert(0, _recorded((), level, listener) if live is None else live)
    return Report(tuple(subjects), level, seed, notes=_notes(live is None, level))


def _notes(recorded: bool, level: str) -> tuple[str, ...]:
    """What the verdict on the bundled kernel rests on."""
    return (*([describe()] if recorded else []), describe_build(level=level))


def _live(level: str, seed: int, listener: Listener) -> Subject | None:
    """The bundled kernel on this machine's GPU, or None without a Hopper GPU."""
    from dmverify.conformance.kernels.bundled import Bundled, hopper_present

    if not hopper_present():
        return None
    return _attention(BUNDLED, Bundled(), None, level, seed, (), (), None, listener)


def _recorded(cases: Sequence[str], level: str, listener: Listener) -> Subject:
    findings = judge_shipped(cases, level=level, emit=listener)
    return Subject(RECORDED, "", "the specification's bits", findings)


def _kernel(kernel: str | Kernel, timeout: float | None) -> Kernel:
    if isinstance(kernel, str):
        name, found = kernel, resolve_kernel(kernel, timeout=timeout)
    elif timeout is not None:
        raise InputError(
            f"timeout {timeout:g} for an object",
            rule="only a kernel that has a name can run in a process of its own",
            fix="pass pkg.module:object",
        )
    else:
        name = type(kernel).__name__
        found = require_kernel(kernel, name)
    if getattr(found, "is_specification", False):
        raise InputError(
            f"kernel {name!r}",
            rule="a kernel is judged by something other than itself, and this one is the "
            "specification",
            fix="use it in 'dmverify replay', and verify a kernel of your own",
        )
    return require_unnamed(found, name)


def _attention(
    name: str,
    kernel: Kernel,
    contract: str | None,
    level: str,
    seed: int,
    case_ids: Sequence[str],
    check_ids: Sequence[str],
    minutes: float | None,
    listener: Listener,
) -> Subject:
    stated = get_contract(kernel.contract if contract is None else contract)
    rows = [get_check(name) for name in check_ids] or list(CHECKS.values())
    if level == SOAK and not case_ids:
        findings = soak(kernel, stated.name, seed=seed, checks=rows, emit=listener, minutes=minutes)
    else:
        if case_ids:
            cases = tuple(generate(case_id, contract=stated.name) for case_id in case_ids)
        else:
            cases = select(level, stated.name, seed=seed)
        findings = run(kernel, cases, checks=rows, emit=listener)
    judged_by = "its bits" if stated.bit_exact else "certified enclosures and the exact ledger"
    return Subject(name, stated.name, judged_by, findings, kernel.info)


def _instructions(cases: Sequence[str], listener: Listener) -> Subject:
    findings = judge_recordings(cases, emit=listener)
    return Subject(INSTRUCTIONS, "", "the instruction models, bit for bit", findings)
