"""Judges the cases of a suite one by one, in any order and any selection.

A check that is about the kernel and not about a case (``Check.once``) is judged on the first case
that the kernel serves, as a test of its own, so that no test depends on which ran before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from dmverify.ci.suite import Suite
from dmverify.conformance.adapter import Kernel, contracts_of, describe
from dmverify.conformance.checks import Check, choose_checks
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate, problem_of
from dmverify.conformance.kernels.surroundings import lacks
from dmverify.conformance.report.repeat import by_verify
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.resolve import under_test
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.selection import Asked, choose_pairs
from dmverify.conformance.spread.lengths import length_of, long_first
from dmverify.conformance.tensor_files import name_cases
from dmverify.conformance.tensor_files.source import sources
from dmverify.memory import give_back_long_arrays
from dmverify.spec.recording import Provenance

ONCE = "kernel"  # the test of what is about the kernel and not about a case


@dataclass(frozen=True)
class Row:
    """One test: a case under a contract, and the checks that judge it.

    Attributes:
        name: The case's id, or ``ONCE``.
        family: The case's family, or ``ONCE``.
        asked: Case ids, each with the name of a contract; the first that is served is judged.
        checks: Rows of the table.
    """

    name: str
    family: str
    asked: tuple[Asked, ...]
    checks: tuple[Check, ...]


class Judge:
    """A suite whose kernel is loaded.

    Args:
        suite: What is asked.

    Raises:
        DmverifyError: For an unknown name, level, check or case, or a kernel that cannot be loaded.
    """

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        give_back_long_arrays()  # or glibc asks for the arrays of each case anew, page by page
        self._kernel: Kernel = under_test(
            suite.kernel, timeout=suite.timeout, in_process=suite.in_process
        )
        if (
            suite.in_process
        ):  # torch is loaded now, as in a process of its own, not by the first test
            lacks("stream")

    @cached_property
    def info(self) -> Provenance:
        """What the kernel says it is."""
        return describe(self._kernel)

    @cached_property
    def contracts(self) -> tuple[str, ...]:
        """Names of the contracts that cases are asked under."""
        own = (self._kernel.contract, *contracts_of(self._kernel))
        names = (self.suite.contract,) if self.suite.contract else own
        return tuple(dict.fromkeys(resolve_contract(name).name for name in names))

    def rows(self) -> Iterator[Row]:
        """Every test of the suite, in a fixed order.

        Raises:
            UnknownNameError: For a check, a level or a case that does not exist.
            InputError: For a file of tensors that cannot be read, or is none.
        """
        suite = self.suite
        checks = choose_checks(suite.checks)
        ids, _ = name_cases(suite.cases, sources(suite.inputs, suite.causal, suite.softmax_scale))
        asked = choose_pairs(ids, suite.level, self.contracts, seed=suite.seed)
        for case_id, _ in asked if ids else ():
            problem_of(case_id)  # a wrong id is told before the first test
        of_cases = tuple(check for check in checks if not check.once)
        of_kernel = tuple(check for check in checks if check.once)
        if of_kernel and asked:
            yield Row(ONCE, ONCE, asked, of_kernel)
        for pair in asked:
            yield Row(pair[0], pair[0].partition("/")[0], (pair,), of_cases)

    def judge(self, row: Row) -> Report:
        """Asks the kernel until it serves a case of the row, and judges what it answers."""
        for asked in row.asked:
            report = self._judged(asked, row.checks)
            if report.served.served:
                break
        return report

    def _judged(self, asked: Asked, checks: tuple[Check, ...]) -> Report:
        (case_id, contract), suite = asked, self.suite
        case = generate(case_id, contract=contract)
        findings = tuple(judge_cases(self._kernel, [case], How(checks, ignore)))
        repeat = by_verify(
            suite.kernel, contract, timeout=suite.timeout, in_process=suite.in_process
        )
        subject = Subject(
            suite.kernel, contract, "", findings, self.info, repeat, contracts=(contract,)
        )
        return Report((subject,), suite.level, suite.seed)


def long_rows_first(rows: Sequence[Row], workers: int) -> list[Row]:
    """The tests, ordered so that several processes end at about the same time.

    Args:
        rows: Every test.
        workers: How many processes there are.
    """
    lengths = {place: length_of(row.asked[0]) for place, row in enumerate(rows)}
    return [rows[place] for place in long_first(lengths, workers)]


@cache
def judge_of(suite: Suite) -> Judge:
    """The suite's judge; one a process, since a kernel may take seconds to start."""
    return Judge(suite)
