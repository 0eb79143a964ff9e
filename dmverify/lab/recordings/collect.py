"""Asks a kernel many cases in processes side by side, and keeps a hash of each output.

Each process has a kernel, and on a GPU a context, of its own, and draws the inputs itself. What it
answers goes to a journal at once, so that the same call after an interruption asks only the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.events import Listener, RunStarted
from dmverify.conformance.families import generate, problem_of
from dmverify.conformance.journal import Journal
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.pool import Pool, in_order
from dmverify.conformance.verdict import Finding
from dmverify.spec.recording import Key, Question, Unanswered, digest_inputs, short_hash

LOOKS_AHEAD = 500  # cases a process: what travels is an id and some hashes


@dataclass(frozen=True)
class Row:
    """What a kernel said to one case.

    Attributes:
        question: The case and the hash of its inputs.
        outputs: Hash of every output that was returned.
        why: The reason where the kernel does not serve the case.
    """

    question: Question
    outputs: dict[str, str] = field(default_factory=dict)
    why: str = ""


def ask(kernel: Kernel, key: Key) -> Row:
    """One case."""
    case = generate(key[0], contract=key[1])
    question = Question(*key, digest_inputs(case.inputs))
    support = kernel.supports(case)
    if isinstance(support, Unsupported):
        return Row(question, why=support.reason)
    outputs = kernel.backward(case).require(case.problem)
    return Row(question, {name: short_hash(array) for name, array in outputs.items()})


def collect(
    kernel: Kernel, asked: Sequence[Key], journal: Journal, *, processes: int, emit: Listener
) -> None:
    """Asks every case that the journal does not know, the costly ones first.

    Args:
        kernel: What to ask; to other processes it is sent with every case.
        asked: Cases and contracts, each once.
        journal: Where hashes are kept as they come.
        processes: How many; 1 asks in this one.
        emit: Called with each event.

    Raises:
        InputError: If processes are below 1.
    """
    rest = sorted((key for key in asked if not journal.knows(key)), key=_cost, reverse=True)
    calls = ((key[0], partial(ask, kernel, key)) for key in rest)
    with (
        announced(RunStarted(kernel.info.kernel, "recording", len(rest)), emit),
        nullcontext() if processes == 1 else Pool(processes) as pool,
    ):
        rows = in_order(calls, pool, ahead=LOOKS_AHEAD)
        for _ in each(((row.question.case_id, _kept(row, journal)) for row in rows), emit):
            pass


def _kept(row: Row, journal: Journal) -> Iterator[Finding]:
    """Writes a row; nothing is judged, so there are no findings."""
    if row.why:
        journal.note(row.question, Unanswered("unsupported", row.why))
    else:
        journal.answer_by_hash(row.question, row.outputs)
    yield from ()


def _cost(key: Key) -> int:
    problem = problem_of(key[0])
    rows = problem.batch * problem.heads * problem.queries
    return rows * (problem.keys + 64) * problem.head_dim
