"""Runs a kernel through cases and judges every answer; emits events, prints nothing.

What goes wrong is a finding, not an exception: a crash of the kernel is an ``error`` of the check
``run``, a crash of a check an ``error`` of that check, a wrong shape or dtype fails ``format``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dmverify.conformance.adapter import Dumps, Forward, Kernel, Unsupported
from dmverify.conformance.checks import Check
from dmverify.conformance.events import (
    CaseDone,
    CaseStarted,
    CheckDone,
    Listener,
    RunDone,
    RunStarted,
)
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import ContractError, InputError
from dmverify.spec.case import Case, Outputs, require_float32, require_shape
from dmverify.spec.recording import digest

SUPPORT, RUN = "supported", "run"  # findings that no check of the table makes


def run(
    kernel: Kernel, cases: Sequence[Case], *, checks: Iterable[Check], emit: Listener
) -> tuple[Finding, ...]:
    """Judges a kernel on every case.

    Args:
        kernel: The kernel under test.
        cases: What to ask it.
        checks: Rows of the table.
        emit: Called with each event.
    """
    contracts = dict.fromkeys(case.contract for case in cases) or (kernel.contract,)
    emit(RunStarted(kernel.info.kernel, ", ".join(contracts), len(cases)))
    chosen = tuple(checks)
    findings: list[Finding] = []
    for number, case in enumerate(cases, 1):
        emit(CaseStarted(case.id, number))
        for finding in _judge_case(kernel, case, chosen):
            findings.append(finding)
            emit(CheckDone(finding))
        emit(CaseDone(case.id))
    emit(RunDone())
    return tuple(findings)


def _judge_case(kernel: Kernel, case: Case, checks: tuple[Check, ...]) -> Iterable[Finding]:
    try:
        support = kernel.supports(case)
        if isinstance(support, Unsupported):
            return [Finding(SUPPORT, case.id, Verdict.UNSUPPORTED, reason=support.reason)]
        before = _digests(case)
        forward, outputs = kernel.forward(case), kernel.backward(case)
        internals = kernel.internals(case) if isinstance(kernel, Dumps) else None
        written = [name for name, value in _digests(case).items() if value != before[name]]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return [Finding(RUN, case.id, Verdict.ERROR, reason=reason)]
    if written:
        reason = f"the kernel wrote to its inputs: {', '.join(written)}"
        return [Finding(RUN, case.id, Verdict.ERROR, reason=reason)]
    try:
        _require_form(case, forward, outputs)
    except InputError as error:
        return [Finding("format", case.id, Verdict.DOES_NOT, np.inf, reason=str(error))]
    evidence = Evidence(case, forward, outputs, internals)
    known = evidence.contract.bit_exact
    return (judge(check, evidence) for check in checks if known or check.needs != "bits")


def _digests(case: Case) -> dict[str, str]:
    """SHA-256 of each input: the kernel gets the arrays themselves, whose layout may matter."""
    return {name: digest(array) for name, array in case.inputs.items()}


def _require_form(case: Case, forward: object, outputs: object) -> None:
    if not isinstance(forward, Forward):
        raise _not_an_answer("forward", forward, Forward)
    if not isinstance(outputs, Outputs):
        raise _not_an_answer("backward", outputs, Outputs)
    shapes = case.problem.shapes()
    for name in ("o", "lse"):
        require_float32(name, getattr(forward, name))
        require_shape(name, getattr(forward, name), shapes[name])
    outputs.require(case.problem)


def _not_an_answer(call: str, value: object, kind: type) -> InputError:
    return InputError(
        f"{call} gives {type(value).__name__}",
        rule=f"{call} gives a {kind.__name__}",
        fix=f"return {kind.__module__}.{kind.__name__}",
    )


def judge(check: Check, evidence: Evidence) -> Finding:
    """What one check says about one answered case; a crash of the check is an ``error``."""
    case = evidence.case.id
    if check.needs == "internals" and evidence.internals is None:
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason="the kernel shows no internals")
    if check.needs == "delta" and evidence.outputs.delta is None:
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason="the kernel returns no delta")
    try:
        return check.judge(check.id, evidence)
    except ContractError as error:
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason=str(error))
    except Exception as error:  # one case that the harness cannot judge must not lose the others
        reason = f"the check itself raised {type(error).__name__}: {error}"
        return Finding(check.id, case, Verdict.ERROR, reason=reason)
