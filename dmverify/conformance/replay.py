"""Runs one case again, by its id."""

from __future__ import annotations

from dmverify.conformance.adapter import require_unnamed
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.contracts import judged_by, resolve_contract
from dmverify.conformance.events import Listener, ignore
from dmverify.conformance.families import generate
from dmverify.conformance.report.repeat import by_replay
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import run


def replay(
    case_id: str, kernel: str, *, contract: str | None = None, listener: Listener = ignore
) -> tuple[Report, bool]:
    """The report of one case, and whether the kernel is the specification itself.

    Args:
        case_id: ``family/variant[,field=value ...]@seed``.
        kernel: Name of a kernel.
        contract: Name of a contract, or the path of its file; None takes the kernel's own.
        listener: Called with every event.

    Raises:
        UnknownNameError: For a name that does not exist.
        KernelError: If the kernel cannot be loaded.
    """
    chosen = require_unnamed(resolve_kernel(kernel), kernel)
    stated = resolve_contract(chosen.contract if contract is None else contract)
    case = generate(case_id, contract=stated.name)
    findings = run(chosen, [case], checks=CHECKS.values(), emit=listener)
    repeat = by_replay(kernel, stated.name)
    subject = Subject(
        kernel, stated.name, judged_by(stated), findings, repeat=repeat, contracts=(stated.name,)
    )
    is_specification = bool(getattr(chosen, "is_specification", False))
    return Report((subject,), "replay", 0), is_specification
