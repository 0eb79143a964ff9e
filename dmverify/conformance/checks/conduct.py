"""Checks of conduct: what a kernel does around its answers, and what it must refuse.

These need no reference, so they hold for every contract.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import ContractError, KernelError, KernelTimeoutError, UnknownNameError

NO_SUCH_CONTRACT = "no-such-contract"


def inputs_check(check: str, evidence: Evidence) -> Finding:
    """Inputs, and the guard zones around them, hold what they held."""
    return _finding(check, evidence, evidence.side_effects.written, "the kernel wrote to ")


def outputs_check(check: str, evidence: Evidence) -> Finding:
    """Outputs lie in memory of their own and stay as they were returned."""
    effects = evidence.side_effects
    said = [f"{name} lies in an input's memory" for name in effects.aliased]
    said += [f"{name} changed after it was returned" for name in effects.changed]
    return _finding(check, evidence, tuple(said), "")


def refusal_check(check: str, evidence: Evidence) -> Finding:
    """A question under a contract that does not exist is refused, not answered."""
    assert evidence.session is not None
    question = replace(evidence.case, contract=NO_SUCH_CONTRACT)
    try:
        answer = evidence.session.ask(question)
    except KernelTimeoutError:
        raise
    except (UnknownNameError, ContractError, KernelError):  # an error is a refusal too
        return _finding(check, evidence, (), "")
    served = () if isinstance(answer, Unsupported) else (NO_SUCH_CONTRACT,)
    return _finding(check, evidence, served, "the kernel answers under the contract ")


def _finding(check: str, evidence: Evidence, said: tuple[str, ...], prefix: str) -> Finding:
    judged = sum(array.size for _, array in evidence.outputs.items())
    if not said:
        return Finding(check, evidence.case.id, Verdict.CONFORMS, 0.0, judged=judged)
    reason = prefix + ", ".join(dict.fromkeys(said))
    return Finding(check, evidence.case.id, Verdict.FAILS, np.inf, judged=judged, reason=reason)
