"""Makes the recordings that ship, on a Hopper GPU: see the table of ``recordings``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.events import Listener, ignore
from dmverify.conformance.families import generate
from dmverify.conformance.recordings.digests import Digests, digest_of, save_digests
from dmverify.conformance.recordings.shipped import ANSWERS, DIGESTS, TAILS
from dmverify.conformance.recordings.tail import cut
from dmverify.conformance.store import save
from dmverify.conformance.three_steps import Asked, run_cases
from dmverify.spec.recording import Answer, Recording

SMALL = 60_000
"""Outputs with at most so many numbers are kept whole, the first of each contract."""

Long = tuple[str, str, tuple[int, ...]]
"""Case id, contract, and the heads whose last queries are kept."""


def record(
    kernel: Kernel,
    folder: Path,
    *,
    asked: Sequence[Asked],
    long: Sequence[Long] = (),
    emit: Listener = ignore,
) -> Digests:
    """Runs the cases and writes hashes of all outputs, some whole, and the ends of long ones.

    Args:
        kernel: What to run.
        folder: A directory without recordings.
        asked: Cases and contracts.
        long: Long cases.
        emit: Called with each event.

    Raises:
        InputError: If the folder has recordings.
        NothingRanError: If the kernel serves none of the cases.
    """
    whole = run_cases(kernel, asked, emit=emit)
    save(Recording(whole.producer, small_ones(whole.answers)), folder / ANSWERS)
    hashes = {(a.case_id, a.contract): digest_of(a.outputs) for a in whole.answers}
    digests = Digests(whole.producer, hashes, whole.notes)
    save_digests(digests, folder / DIGESTS)
    if long:
        record_tails(kernel, folder, long=long)
    return digests


def small_ones(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The first answer of each contract that is small enough to ship."""
    kept: dict[str, Answer] = {}
    for answer in answers:
        if 0 < sum(array.size for _, array in answer.outputs.items()) <= SMALL:
            kept.setdefault(answer.contract, answer)
    return tuple(kept.values())


def record_tails(kernel: Kernel, folder: Path, *, long: Sequence[Long]) -> None:
    """Runs long cases; keeps their last queries, and hashes of everything in the notes."""
    answers, notes = [], {}
    for i, (case_id, contract, heads) in enumerate(long):
        outputs = kernel.backward(generate(case_id, contract=contract))
        answers.append(Answer(case_id, contract, cut(outputs, heads=heads)))
        notes[f"heads/{i}"] = ",".join(map(str, heads))
        notes |= {f"sha256/{i}/{name}": value for name, value in digest_of(outputs).items()}
    save(Recording(kernel.info, tuple(answers), notes), folder / TAILS)
