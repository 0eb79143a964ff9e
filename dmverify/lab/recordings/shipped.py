"""Judges the recorded H200 outputs that ship with the project, bit for bit, on any machine.

| check | compares |
|---|---|
| recorded-answers | whole outputs with the specification's, element by element |
| recorded-digests | hashes of inputs and outputs with the specification's (``replayed``) |
| recorded-tails | the last 128 queries of long cases with the specification's |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.conformance.checks import get_check
from dmverify.conformance.checks.margins import other_bits
from dmverify.conformance.events import Listener, RunStarted
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.certify import describe_build, load_certificate, source_hash
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.pool import Pool, in_order
from dmverify.conformance.recorded import Recording
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import UnknownNameError
from dmverify.lab.recordings.digests import Digests, digest_of, load_digests, shortened
from dmverify.lab.recordings.plan import Key, plan
from dmverify.lab.recordings.tail import NAMES, tail
from dmverify.spec.attention.parts import bits_in_parts
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import digest_inputs

DATA = Path(__file__).parent / "data"
ANSWERS, TAILS, DIGESTS = "answers", "tails", "hashes"
RECORDED = "recorded-bundled"
BITS = get_check("bits")
JUDGED = {"smoke": ("smoke",)}
"""By level, the parts of the plan whose hashes are judged; all of them at any other."""


def judge_shipped(
    cases: Sequence[str] = (),
    *,
    level: str = "smoke",
    folder: Path = DATA,
    emit: Listener,
    pool: Pool | None = None,
) -> tuple[Finding, ...]:
    """Every recorded output against the specification's bits.

    Args:
        cases: Ids to judge, whatever the level; none means those of the level.
        level: ``smoke`` judges the hashes of its own cases, any other all of them.
        folder: Where the recordings are.
        emit: Called with each event.
        pool: Computes the specification's bits ahead; None computes them here.

    Raises:
        RecordingError: If a recording is missing, cut or changed.
        UnknownNameError: For a case that was not recorded.
    """
    digests = digests_in(folder)
    keys: Collection[Key] = tuple(digests.cases)
    if not cases and level in JUDGED:
        keys = set(keys) & set(plan(JUDGED[level]))
    jobs = [job for job in _jobs(folder, digests, keys) if not cases or job[0] in cases]
    missing = sorted(set(cases) - {name for name, _ in jobs})
    if missing:
        raise UnknownNameError(
            f"case {missing[0]!r}",
            rule="recorded outputs exist for the recorded cases only",
            fix="leave --case out, or verify the kernel 'bundled' on a Hopper GPU",
        )
    results = in_order(jobs, pool)
    work = ((name, islice(results, 1)) for name, _ in jobs)
    with announced(RunStarted(RECORDED, "bundled", len(jobs)), emit):
        return tuple(each(work, emit))


@cache
def digests_in(folder: Path) -> Digests:
    """The hashes of a folder of recordings, read once in a process."""
    return load_digests(folder / DIGESTS)


def describe(folder: Path = DATA) -> str:
    """What was recorded where, and whether it was today's source, in one sentence."""
    producer = digests_in(folder).producer
    state = _since(producer.source)
    return (
        f"bundled kernel: outputs recorded on {producer.device} (driver {producer.driver}, "
        f"{producer.compiler}, build {producer.build[:12]}); {state}"
    )


def _since(recorded: str) -> str:
    """What has become of the source that was recorded."""
    now = source_hash()
    if recorded == now:
        return "the kernel's source is unchanged since"
    certificate = load_certificate()
    if certificate.source == now and recorded in certificate.earlier:
        return "the kernel's text has changed since, the machine code of its default builds has not"
    return "THE KERNEL'S SOURCE HAS CHANGED SINCE: this says nothing about it, record it anew"


def _notes(level: str) -> tuple[str, ...]:
    return describe(), describe_build(level=level)


BUNDLED = Recording(
    RECORDED,
    "outputs of the bundled kernel on an H200, as recorded",
    "the specification's bits",
    judge_shipped,
    kernel="bundled",
    notes=_notes,
)
"""What ``verify`` judges where the bundled kernel does not run."""


Job = tuple[str, Callable[[], Finding]]


def _jobs(folder: Path, digests: Digests, keys: Collection[Key]) -> Iterator[Job]:
    from dmverify.conformance.load import load  # needs msgspec, which no run of a kernel does

    for (case, contract), outputs in load(folder / ANSWERS).answers.items():
        yield case, partial(judge_answer, case, contract, outputs)
    for key in digests.cases:
        if key in keys:
            yield key[0], partial(judge_digests, key, digests.of(key))
    recording = load(folder / TAILS)
    for (case, contract), part in recording.parts.items():
        outputs = recording.answers[case, contract]
        yield case, partial(judge_tail, case, contract, outputs, heads=part.heads)


def judge_answer(case_id: str, contract: str, got: Outputs) -> Finding:
    """One case's whole outputs."""
    return _bit_by_bit("recorded-answers", generate(case_id, contract=contract), got)


def judge_tail(case_id: str, contract: str, got: Outputs, *, heads: tuple[int, ...]) -> Finding:
    """The last queries of one long case."""
    case = tail(generate(case_id, contract=contract), heads=heads)
    kept = Outputs(**{name: getattr(got, name) for name in NAMES})
    return _bit_by_bit("recorded-tails", case, kept)


def _bit_by_bit(check: str, case: Case, got: Outputs) -> Finding:
    """What the suite's check of bits says, under a name that says of what."""
    found = judge(replace(BITS, id=check), Evidence(case, Forward(got.o, got.lse), got))
    reason = f"{case.contract}: {found.reason}" if found.reason else ""
    return replace(found, reason=reason)


def judge_digests(key: Key, digests: Digests) -> Finding:
    """One case by its hashes; other inputs are told apart from other outputs."""
    case_id, contract = key
    case = generate(case_id, contract=contract)
    if digests.inputs[key] != digest_inputs(case.inputs):
        reason = f"{contract}: the id gives other inputs than those that were recorded"
        return _by_hash(case_id, 0, reason)
    due, got = expected(case), shortened(digests.cases[key])
    hashes = shortened(digest_of(due))
    wrong = [name for name in got if got[name] != hashes.get(name)]
    judged = sum(array.size for name, array in due.items() if name in got)
    reason = f"{contract}: the hash of {', '.join(wrong)} differs" if wrong else ""
    return _by_hash(case_id, judged, reason)


def _by_hash(case_id: str, judged: int, reason: str) -> Finding:
    return Finding(
        "recorded-digests",
        case_id,
        Verdict.FAILS if reason else Verdict.CONFORMS,
        np.inf if reason else 0.0,
        judged=judged,
        reason=reason,
    )


def expected(case: Case) -> Outputs:
    """The specification's bits."""
    return bits_in_parts(get_contract(case.contract), case.problem, case.inputs)


def differing(got: F32, due: F32) -> int:
    """How many elements differ in a bit, NaN being equal to NaN; all of them if shapes differ."""
    if got.shape != due.shape:
        return max(got.size, due.size, 1)
    return int(other_bits(got, due).sum())
