"""Makes the recordings that ship, on a Hopper GPU: see the table of ``recordings``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.events import Listener, ignore
from dmverify.conformance.families import generate, problem_of
from dmverify.conformance.journal import Journal
from dmverify.conformance.questions import examine
from dmverify.conformance.specification import specification_hash
from dmverify.conformance.store import FOOTER, save
from dmverify.errors import InputError, NothingRanError
from dmverify.lab.recordings.collect import collect
from dmverify.lab.recordings.digests import Digests, digest_of
from dmverify.lab.recordings.shipped import ANSWERS, DIGESTS, TAILS
from dmverify.lab.recordings.tail import cut
from dmverify.spec.case import Outputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Key, Part, Provenance, Question, Recording, contract_texts

SMALL = 60_000
"""Outputs with at most so many numbers are kept whole, the first of each contract."""

Long = tuple[str, str, tuple[int, ...]]
"""Case id, contract, and the heads whose last queries are kept."""


@runtime_checkable
class Counting(Protocol):
    """A kernel whose ``info`` covers the builds that have run, in whichever process."""

    def count(self, contract: str, problem: Problem) -> None:
        """Counts what serves such a case among what has run."""
        ...


def record(
    kernel: Kernel,
    folder: Path,
    *,
    asked: Sequence[Key],
    long: Sequence[Long] = (),
    processes: int = 1,
    emit: Listener = ignore,
) -> Digests:
    """Runs the cases and writes hashes of all outputs, some whole, and the ends of long ones.

    Args:
        kernel: What to run.
        folder: A directory without recordings; one that an interrupted call left is gone on with.
        asked: Cases and contracts, each once.
        long: Long cases.
        processes: How many ask side by side.
        emit: Called with each event.

    Raises:
        InputError: If the folder has recordings, or a journal of another kernel.
        NothingRanError: If the kernel serves none of the cases.
    """
    with _journal(kernel, folder, asked) as journal:
        collect(kernel, asked, journal, processes=processes, emit=emit)
        if not journal.hashes:
            reasons = [one.reason for one in journal.unanswered.values()]
            raise NothingRanError(
                f"{kernel.info.kernel}: {reasons[0] if reasons else 'no case'}",
                rule="a recording holds at least one answer",
                fix="name cases that the kernel serves",
            )
        save_answers(kernel.info, _whole(kernel, asked, journal), folder / ANSWERS)
        if long:
            record_tails(kernel, folder, long=long)
        return _finished(kernel, asked, journal)


def record_missing(
    kernel: Kernel,
    folder: Path,
    *,
    onto: Digests,
    asked: Sequence[Key],
    processes: int = 1,
    emit: Listener = ignore,
) -> Digests:
    """Runs what a recording has not answered and writes hashes of both, the old and the new.

    Args:
        kernel: What to run, of the source that the recording is of.
        folder: As for ``record``.
        onto: The recording.
        asked: Cases and contracts that it has not.
        processes: How many ask side by side.
        emit: Called with each event.

    Raises:
        InputError: If the kernel's source is another than the recording's, or as for ``record``.
    """
    if kernel.info.source != onto.producer.source:
        raise InputError(
            f"source {kernel.info.source[:12]} after {onto.producer.source[:12]}",
            rule="a recording is continued with the kernel source that it was made with",
            fix="record everything anew",
        )
    with _journal(kernel, folder, asked) as journal:
        collect(kernel, asked, journal, processes=processes, emit=emit)
        return _finished(kernel, asked, journal, onto)


def _journal(kernel: Kernel, folder: Path, asked: Sequence[Key]) -> Journal:
    """The journal of a recording's hashes, new or taken up again; inputs are hashed when asked."""
    if (folder / DIGESTS / FOOTER).exists():
        raise InputError(
            folder, rule="a recording is never overwritten", fix="name a folder without a recording"
        )
    questions = [Question(*key, inputs="") for key in asked]
    return Journal(folder / DIGESTS, kernel.info, questions, contract_texts(asked))


def _finished(
    kernel: Kernel, asked: Sequence[Key], journal: Journal, onto: Digests | None = None
) -> Digests:
    """The recording of all rows after those of another one, written in the journal's place."""
    old = onto or Digests(kernel.info, {})
    answered = {key: journal.hashes[key] for key in asked if key in journal.hashes}
    declined = {key: one.reason for key, one in journal.unanswered.items()}
    if isinstance(kernel, Counting):
        for case_id, contract in (*old.cases, *answered):
            kernel.count(contract, problem_of(case_id))
    digests = Digests(
        kernel.info,
        old.cases | answered,
        old.inputs | journal.inputs,
        old.unserved | declined,
        specification_hash(),
    )
    journal.finish(digests.recording())
    return digests


def _whole(kernel: Kernel, asked: Sequence[Key], journal: Journal) -> dict[Key, Outputs]:
    """The first answer of each contract that is small enough to ship, asked again."""
    chosen: dict[str, Key] = {}
    for key in asked:
        shapes = problem_of(key[0]).shapes()
        size = sum(math.prod(shapes[name]) for name in journal.hashes.get(key, ()))
        if 0 < size <= SMALL:
            chosen.setdefault(key[1], key)
    return {key: kernel.backward(generate(key[0], contract=key[1])) for key in chosen.values()}


def save_answers(producer: Provenance, answers: Mapping[Key, Outputs], folder: Path) -> None:
    """Writes a recording of answers alone."""
    save(Recording(producer, examine(answers), answers), folder)


def record_tails(kernel: Kernel, folder: Path, *, long: Sequence[Long]) -> None:
    """Runs long cases; keeps their last queries, and hashes of everything."""
    answers, parts = {}, {}
    for case_id, contract, heads in long:
        outputs = kernel.backward(generate(case_id, contract=contract))
        answers[case_id, contract] = cut(outputs, heads=heads)
        parts[case_id, contract] = Part(heads, digest_of(outputs))
    save(Recording(kernel.info, examine(answers), answers, parts=parts), folder / TAILS)
