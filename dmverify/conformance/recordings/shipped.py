"""Judges the recorded H200 outputs that ship with the project, bit for bit, on any machine.

| check | compares |
|---|---|
| recorded-answers | whole outputs with the specification's, element by element |
| recorded-digests | SHA-256 of every output with that of the specification's |
| recorded-tails | the last 128 queries of long cases with the specification's |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from dmverify.conformance.certify import source_hash
from dmverify.conformance.events import (
    CaseDone,
    CaseStarted,
    CheckDone,
    Listener,
    RunDone,
    RunStarted,
)
from dmverify.conformance.families import generate
from dmverify.conformance.recordings.digests import digest_of, load_digests
from dmverify.conformance.recordings.tail import NAMES, tail
from dmverify.conformance.store import load
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import UnknownNameError
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import get_contract

DATA = Path(__file__).parent / "data"
ANSWERS, TAILS, DIGESTS = "answers", "tails", "digests.json"
RECORDED = "recorded-bundled"
STRIDES = {"smoke": 12, "full": 1}
"""By level: of how many cases with hashes one is judged."""


def judge_shipped(
    cases: Sequence[str] = (), *, level: str = "smoke", folder: Path = DATA, emit: Listener
) -> tuple[Finding, ...]:
    """Every recorded output against the specification's bits.

    Args:
        cases: Ids to judge, whatever the level; none means those of the level.
        level: ``full`` judges every hash, any other every twelfth.
        folder: Where the recordings are.
        emit: Called with each event.

    Raises:
        RecordingError: If a recording is missing, cut or changed.
        UnknownNameError: For a case that was not recorded.
    """
    stride = 1 if cases else STRIDES.get(level, STRIDES["smoke"])
    jobs = [job for job in _jobs(folder, stride) if not cases or job[0] in cases]
    missing = sorted(set(cases) - {name for name, _ in jobs})
    if missing:
        raise UnknownNameError(
            f"case {missing[0]!r}",
            rule="recorded outputs exist for the recorded cases only",
            fix="leave --case out, or verify the kernel 'bundled' on a Hopper GPU",
        )
    emit(RunStarted(RECORDED, "bundled", len(jobs)))
    findings = []
    for number, (name, job) in enumerate(jobs, 1):
        emit(CaseStarted(name, number))
        findings.append(job())
        emit(CheckDone(findings[-1]))
        emit(CaseDone(name))
    emit(RunDone())
    return tuple(findings)


def describe(folder: Path = DATA) -> str:
    """What was recorded where, and whether it was today's source, in one sentence."""
    producer = load_digests(folder / DIGESTS).producer
    same = producer.source == source_hash()
    state = (
        "the kernel's source is unchanged since"
        if same
        else ("THE KERNEL'S SOURCE HAS CHANGED SINCE: this says nothing about it, record it anew")
    )
    return (
        f"bundled kernel: outputs recorded on {producer.device} (driver {producer.driver}, "
        f"{producer.compiler}, build {producer.build[:12]}); {state}"
    )


Job = tuple[str, Callable[[], Finding]]


def _jobs(folder: Path, stride: int) -> Iterator[Job]:
    for answer in load(folder / ANSWERS).answers:
        yield answer.case_id, partial(judge_answer, answer.case_id, answer.contract, answer.outputs)
    cases = list(load_digests(folder / DIGESTS).cases.items())
    for (case, contract), hashes in cases[::stride]:
        yield case, partial(judge_digests, case, contract, hashes)
    recording = load(folder / TAILS)
    for i, answer in enumerate(recording.answers):
        heads = tuple(map(int, recording.notes[f"heads/{i}"].split(",")))
        yield (
            answer.case_id,
            partial(judge_tail, answer.case_id, answer.contract, answer.outputs, heads=heads),
        )


def judge_answer(case_id: str, contract: str, got: Outputs) -> Finding:
    """One case's whole outputs."""
    due = expected(generate(case_id, contract=contract))
    return _finding("recorded-answers", case_id, contract, _pairs(got, due))


def judge_tail(case_id: str, contract: str, got: Outputs, *, heads: tuple[int, ...]) -> Finding:
    """The last queries of one long case."""
    due = expected(tail(generate(case_id, contract=contract), heads=heads))
    pairs = [(name, getattr(got, name), getattr(due, name)) for name in NAMES]
    return _finding("recorded-tails", case_id, contract, pairs)


def judge_digests(case_id: str, contract: str, got: dict[str, str]) -> Finding:
    """One case by its hashes."""
    due = expected(generate(case_id, contract=contract))
    hashes = digest_of(due)
    wrong = [name for name in got if got[name] != hashes.get(name)]
    judged = sum(array.size for name, array in due.items() if name in got)
    return Finding(
        "recorded-digests",
        case_id,
        Verdict.DOES_NOT if wrong else Verdict.CONFORMS,
        np.inf if wrong else 0.0,
        judged=judged,
        reason=f"{contract}: the hash of {', '.join(wrong)} differs" if wrong else "",
    )


def expected(case: Case) -> Outputs:
    """The specification's bits."""
    return interpret(get_contract(case.contract), case.problem, case.inputs, Bits()).outputs


def differing(got: F32, due: F32) -> int:
    """How many elements differ in a bit, NaN being equal to NaN; all of them if shapes differ."""
    if got.shape != due.shape:
        return max(got.size, due.size, 1)
    other = np.ascontiguousarray(got).view(np.uint32) != np.ascontiguousarray(due).view(np.uint32)
    return int((other & ~(np.isnan(got) & np.isnan(due))).sum())


def _pairs(got: Outputs, due: Outputs) -> list[tuple[str, F32, F32]]:
    return [(name, array, getattr(due, name)) for name, array in got.items()]


def _finding(check: str, case_id: str, contract: str, pairs: list[tuple[str, F32, F32]]) -> Finding:
    wrong = {name: count for name, got, due in pairs if (count := differing(got, due))}
    words = ", ".join(f"{count} elements of {name}" for name, count in wrong.items())
    return Finding(
        check,
        case_id,
        Verdict.DOES_NOT if wrong else Verdict.CONFORMS,
        np.inf if wrong else 0.0,
        judged=sum(got.size for _, got, _ in pairs),
        reason=f"{contract}: {words} differ" if wrong else "",
    )
