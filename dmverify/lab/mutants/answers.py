"""One case and what is known about it, shared by all the mutants that it shows.

The references of a case cost more than a kernel's answer, so each is made once. Judging without
bits replaces the exact bands of a contract that states every order by its enclosure, in which the
order of keys and queries is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from dmverify.conformance.adapter import Dumps, Forward, Kernel
from dmverify.conformance.checks import CHECKS, Check
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.references import References
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.lab.public_rules import PUBLIC_RULES, references
from dmverify.lab.public_rules import References as PublicReferences
from dmverify.spec.attention.parts import bits_in_parts
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import get_contract

BITS = CHECKS["bits"]
ONE_ANSWER = tuple(check for check in CHECKS.values() if check.needs != "kernel")
"""The checks that need no second answer of the kernel."""
WITHOUT_BITS = tuple(check for check in ONE_ANSWER if check.needs != "bits")
CONFORMS = (Verdict.CONFORMS, Verdict.INDETERMINATE, Verdict.UNSUPPORTED)


class Known:
    """What a case is judged by.

    Args:
        case_id: Id of the case.
        contract: Name of the contract.
    """

    def __init__(self, case_id: str, contract: str) -> None:
        self.case: Case = generate(case_id, contract=contract)

    @cached_property
    def bits(self) -> Outputs:
        """The outputs bit for bit."""
        case = self.case
        return bits_in_parts(get_contract(case.contract), case.problem, case.inputs)

    @cached_property
    def right(self) -> Outputs:
        """What a correct kernel answers: the bits, or of a contract without any the simulation."""
        exact = get_contract(self.case.contract).bit_exact
        return self.bits if exact else Simulation().backward(self.case)

    @cached_property
    def by_bounds(self) -> References:
        """What any order of keys and queries may give; bits that are asked for are the known."""
        return References(self.case, use_bits=False, made=lambda: {"bits": self.bits})

    @cached_property
    def by_bits(self) -> References:
        """The known bits."""
        made = {"bits": self.bits, "attention": self.by_bounds.attention}
        return References(self.case, made=lambda: made)

    def evidence(
        self, answer: Outputs, *, by_bits: bool, forward: Forward, internals: Internals | None
    ) -> Evidence:
        """An answer to the case, judged by the references that all answers share."""
        references = self.by_bits if by_bits else self.by_bounds
        return Evidence(
            self.case, forward, answer, internals, use_bits=by_bits, references=references
        )

    @cached_property
    def public(self) -> PublicReferences:
        """What public suites compare with."""
        return references(self.case)

    @cached_property
    def rules_accept(self) -> dict[str, frozenset[str]]:
        """The outputs of the correct kernel that each public rule accepts."""
        return {name: rule.accepted(self.right, self.public) for name, rule in PUBLIC_RULES.items()}

    def rules_noticing(self, answer: Outputs) -> dict[str, bool]:
        """Whether each public rule rejects an output that it accepts of the correct kernel."""
        return {
            name: bool(self.rules_accept[name] - rule.accepted(answer, self.public))
            for name, rule in PUBLIC_RULES.items()
        }


@cache
def known_of(case: str, contract: str) -> Known:
    """What is known of a case; each part is made when first asked for, and kept."""
    return Known(case, contract)


@dataclass(frozen=True)
class Answered:
    """What was said about one kernel on one case.

    Attributes:
        with_bits: Ids of the checks that reject it when bits are compared.
        without_bits: Ids of those that reject it by bounds alone.
        margin: The worst margin by bounds alone.
        error: The largest relative distance of an output from the bits, in the Euclidean norm.
        rules: Whether each public rule rejects an output that it accepts of the correct kernel.
    """

    with_bits: tuple[str, ...]
    without_bits: tuple[str, ...]
    margin: float
    error: float
    rules: dict[str, bool]


def answer(kernel: Kernel, known: Known) -> Answered:
    """Runs a kernel on a case and asks every check and every public rule."""
    case = known.case
    forward, outputs = kernel.forward(case), kernel.backward(case)
    internals = kernel.internals(case) if isinstance(kernel, Dumps) else None
    return judge_answer(known, forward, outputs, internals)


def judge_answer(
    known: Known, forward: Forward, outputs: Outputs, internals: Internals | None = None
) -> Answered:
    """What every check and every public rule says about an answer, wherever it was made."""
    open_, exact = (
        known.evidence(outputs, by_bits=by_bits, forward=forward, internals=internals)
        for by_bits in (False, True)
    )
    bounds = {check.id: judge(check, open_) for check in WITHOUT_BITS}
    again = [judge(check, exact) for check in WITHOUT_BITS if _reads_bands(check)]
    findings = bounds | {finding.check: finding for finding in again}
    findings[BITS.id] = judge(BITS, exact)
    return Answered(
        with_bits=rejecting(findings),
        without_bits=rejecting(bounds),
        margin=float(np.nanmax([finding.margin for finding in bounds.values()])),
        error=distance(outputs, known.bits),
        rules=known.rules_noticing(outputs),
    )


def alarms(known: Known) -> tuple[str, ...]:
    """Ids of the checks that reject the correct kernel by its bounds, or crash; none may."""
    kernel, case = Emulator(), known.case
    forward, internals = kernel.forward(case), kernel.internals(case)
    evidence = known.evidence(known.bits, by_bits=False, forward=forward, internals=internals)
    findings = {check.id: judge(check, evidence) for check in WITHOUT_BITS}
    return tuple(name for name, found in findings.items() if found.verdict not in CONFORMS)


def rejecting(findings: dict[str, Finding]) -> tuple[str, ...]:
    """The checks that say it does not conform; a check that crashes has rejected nothing."""
    return tuple(name for name, found in findings.items() if found.verdict is Verdict.FAILS)


def distance(got: Outputs, due: Outputs) -> float:
    """The largest relative distance over the outputs; infinite if one has NaN of its own."""
    return max(_relative(array, getattr(due, name)) for name, array in got.items())


def _relative(got: np.typing.NDArray[np.float32], due: np.typing.NDArray[np.float32]) -> float:
    same = (got == due) | (np.isnan(got) & np.isnan(due))
    a, b = (np.where(same, 0.0, x.astype(np.float64)) for x in (got, due))
    size = np.where(np.isfinite(due), due, 0.0).astype(np.float64)
    with np.errstate(all="ignore"):
        error, norm = np.linalg.norm(a - b), np.linalg.norm(size)
    if np.isnan(error):
        return float("inf")
    return float(error / norm) if norm else float(np.where(error == 0, 0.0, np.inf))


def _reads_bands(check: Check) -> bool:
    return check.section.startswith("dmverify.spec.enclosure")
