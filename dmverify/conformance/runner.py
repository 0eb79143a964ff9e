"""Runs a kernel through cases and judges every answer; emits events, prints nothing.

| what goes wrong | is a finding of | with the verdict |
|---|---|---|
| the kernel declines | supported | unsupported |
| it raises, crashes, breaks the protocol | run | error |
| it gives no answer in time | run | timeout |
| its answer has wrong tensors, shapes, dtypes | format | fails |
| a check raises | that check | error |
| the judge's own disk, say, fails | harness | error, which is not the kernel's |

No exception of a kernel ends a run. ``session`` says how a kernel is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dmverify.conformance.adapter import Kernel, Stored, describe
from dmverify.conformance.checks import Check
from dmverify.conformance.events import Listener, RunStarted
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.pool import Makers, ahead
from dmverify.conformance.references import References
from dmverify.conformance.session import Session
from dmverify.conformance.sizes import is_large
from dmverify.conformance.verdict import HARNESS, Finding, Verdict
from dmverify.conformance.verdict import RUN as RUN
from dmverify.conformance.verdict import SUPPORT as SUPPORT
from dmverify.conformance.words import describe_error, printable
from dmverify.errors import (
    AnswerError,
    ContractError,
    DmverifyError,
    HarnessError,
    KernelError,
    KernelTimeoutError,
)
from dmverify.memory import give_back_free_memory
from dmverify.spec.case import Case

FORWARD = frozenset({"o", "lse"})  # which no backward pass gives
FORM = "format"  # the check of the table that an answer of another form fails
NAN = "nan"  # the one that reads bands and is not about an output
ENCLOSURE = "dmverify.spec.enclosure"


@dataclass(frozen=True)
class How:
    """How cases are judged.

    Attributes:
        checks: Rows of the table.
        emit: Called with each event.
        use_bits: Whether contracts that state every order are judged by their bits.
        pool: Makes references ahead; None makes them here.
        stops: Whether a finding ends the run after its case.
    """

    checks: tuple[Check, ...]
    emit: Listener
    use_bits: bool = True
    pool: Makers | None = None
    stops: Callable[[Finding], bool] = lambda finding: False


def run(
    kernel: Kernel,
    cases: Sequence[Case],
    *,
    checks: Iterable[Check],
    emit: Listener,
    use_bits: bool = True,
) -> tuple[Finding, ...]:
    """Judges a kernel on every case of a list.

    Args:
        kernel: The kernel under test.
        cases: What to ask it.
        checks: Rows of the table.
        emit: Called with each event.
        use_bits: Whether contracts that state every order are judged by their bits.
    """
    contracts = dict.fromkeys(case.contract for case in cases) or (kernel.contract,)
    with announced(RunStarted(describe(kernel).kernel, ", ".join(contracts), len(cases)), emit):
        return tuple(judge_cases(kernel, cases, How(tuple(checks), emit, use_bits)))


def judge_cases(kernel: Kernel, cases: Iterable[Case], how: How) -> Iterator[Finding]:
    """Judges a kernel on one case after the other; keeps neither cases nor findings.

    Args:
        kernel: The kernel under test.
        cases: What to ask it, taken one by one, or a few ahead if there is a pool.
        how: How they are judged.
    """
    return each(_work(kernel, cases, how), how.emit, stops=how.stops)


def _work(
    kernel: Kernel, cases: Iterable[Case], how: How
) -> Iterator[tuple[str, Iterator[Finding]]]:
    """Each case with its findings; a check that is about the kernel judges one case."""
    done: set[str] = set()
    waiting = how.checks
    for references in _references(cases, how):
        yield references.case.id, _findings(kernel, references, waiting, done)
        waiting = tuple(check for check in waiting if not (check.once and check.id in done))
        del references  # which may be large, and the next ones are made now


def _findings(
    kernel: Kernel, references: References, checks: tuple[Check, ...], done: set[str]
) -> Iterator[Finding]:
    for finding in _judge_case(Session(kernel, references.case), references, checks):
        done.add(finding.check)
        yield finding


def _references(cases: Iterable[Case], how: How) -> Iterator[References]:
    banded = any(check.section == ENCLOSURE for check in how.checks)
    reads = banded or any(check.needs == "bits" or check.id == NAN for check in how.checks)
    return ahead(cases, how.pool, use_bits=how.use_bits, reads=reads, accuracy=banded)


def _judge_case(
    session: Session, references: References, checks: tuple[Check, ...]
) -> Iterable[Finding]:
    case = references.case
    try:
        declined = session.supports()
        if declined is not None:
            return [Finding(SUPPORT, case.id, Verdict.UNSUPPORTED, reason=declined.reason)]
        forward, outputs = session.forward(), session.backward()
        if is_large(case.problem):
            give_back_free_memory()  # what is shown next takes the most
        internals = session.internals()
    except Exception as error:
        return [finding_of(error, RUN, case.id)]
    stored = isinstance(session.kernel, Stored)
    evidence = Evidence(
        case,
        forward,
        outputs,
        internals,
        session=None if stored else session,
        two_calls=not stored,
        use_bits=references.use_bits,
        references=references,
        lacks_gradients=session.lacks_gradients,
    )
    known = evidence.contract.bit_exact and references.use_bits
    asked = tuple(check for check in checks if known or check.needs != "bits")
    return _judge_large(asked, evidence) if is_large(case.problem) else _judge_all(asked, evidence)


def _judge_all(checks: Iterable[Check], evidence: Evidence) -> Iterator[Finding]:
    return (judge(check, evidence) for check in checks)


def _judge_large(checks: tuple[Check, ...], evidence: Evidence) -> Iterator[Finding]:
    """Judges a large case: the checks of internals first, whose memory is then freed.

    It takes as much room as the bands, which come next.
    """
    found = {}
    for check in checks:
        if check.needs == "internals":
            give_back_free_memory()
            found[check.id] = judge(check, evidence)
    evidence = replace(evidence, internals=None)
    give_back_free_memory()
    for check in checks:
        yield found.get(check.id) or judge(check, evidence)


def finding_of(error: Exception, check: str, case: str) -> Finding:
    """What a kernel's failure is called."""
    why = printable(error) if isinstance(error, DmverifyError) else describe_error(error)
    if isinstance(error, AnswerError):
        return Finding(FORM if check == RUN else check, case, Verdict.FAILS, np.inf, reason=why)
    if isinstance(error, HarnessError):
        return Finding(HARNESS, case, Verdict.ERROR, reason=why)
    late = isinstance(error, KernelTimeoutError)
    return Finding(check, case, Verdict.TIMEOUT if late else Verdict.ERROR, reason=why)


def judge(check: Check, evidence: Evidence) -> Finding:
    """What one check says about one answered case; a crash of the check is an ``error``."""
    case = evidence.case.id
    if check.needs == "internals" and evidence.internals is None:
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason="the kernel shows no internals")
    once = not evidence.two_calls if check.needs == "calls" else evidence.session is None
    if check.needs in ("calls", "kernel") and once:
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason="it cannot be asked again")
    if missing := [name for name in check.reads if name not in evidence.outputs.names]:
        said = "" if FORWARD.intersection(missing) else evidence.lacks_gradients
        reason = said or f"the kernel returns no {', '.join(missing)}"
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason=reason)
    try:
        return check.judge(check.id, evidence)
    except ContractError as error:
        return Finding(check.id, case, Verdict.UNSUPPORTED, reason=str(error))
    except (KernelError, AnswerError, HarnessError) as error:  # it was asked again and broke
        return finding_of(error, check.id, case)
    except Exception as error:  # one case that the harness cannot judge must not lose the others
        reason = f"the check itself raised {describe_error(error)}"
        return Finding(check.id, case, Verdict.ERROR, reason=reason)
