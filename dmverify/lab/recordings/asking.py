"""Asks a kernel many cases in processes side by side, and keeps a hash of each output.

Each process has a kernel, and on a GPU a context, of its own, and draws the inputs itself. What it
answers goes to a journal at once, so that the same call after an interruption asks only the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.events import CaseDone, CaseStarted, Listener, RunDone, RunStarted, ignore
from dmverify.conformance.families import generate, problem_of
from dmverify.conformance.pool import Pool, in_order
from dmverify.errors import InputError
from dmverify.lab.recordings.digests import digest_of, digest_of_inputs, short, shortened
from dmverify.lab.recordings.plan import Key

LOOKS_AHEAD = 500  # cases a process: what travels is an id and some hashes


@dataclass(frozen=True)
class Row:
    """What a kernel said to one case.

    Attributes:
        case: Its id.
        contract: Name of the contract.
        inputs: Hash of the inputs, empty where the kernel does not serve the case.
        outputs: Hash of every output that was returned.
        why: The reason where the kernel does not serve the case.
    """

    case: str
    contract: str
    inputs: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    why: str = ""

    @property
    def key(self) -> Key:
        """Case and contract."""
        return self.case, self.contract


def ask(kernel: Kernel, key: Key) -> Row:
    """One case."""
    case = generate(key[0], contract=key[1])
    support = kernel.supports(case)
    if isinstance(support, Unsupported):
        return Row(*key, why=support.reason)
    outputs = kernel.backward(case).require(case.problem)
    return Row(*key, digest_of_inputs(case.inputs), shortened(digest_of(outputs)))


def ask_all(
    kernel: Kernel,
    asked: Sequence[Key],
    journal: Path,
    *,
    processes: int = 1,
    emit: Listener = ignore,
) -> tuple[Row, ...]:
    """Every case, the costly ones first; the rows come back in the order of ``asked``.

    Args:
        kernel: What to ask; to other processes it is sent with every case.
        asked: Cases and contracts, each once.
        journal: Where rows are kept as they come.
        processes: How many; 1 asks in this one.
        emit: Called with each event.

    Raises:
        InputError: If the journal is of another kernel or source, or processes are below 1.
    """
    known = _known(journal, _header(kernel))
    rest = sorted((key for key in asked if key not in known), key=_cost, reverse=True)
    emit(RunStarted(kernel.info.kernel, "recording", len(rest)))
    calls = ((key[0], partial(ask, kernel, key)) for key in rest)
    with (
        journal.open("a") as log,
        nullcontext() if processes == 1 else Pool(processes) as pool,
    ):
        for number, row in enumerate(in_order(calls, pool, ahead=LOOKS_AHEAD), 1):
            emit(CaseStarted(row.case, number))
            log.write(json.dumps(asdict(row)) + "\n")
            log.flush()
            known[row.key] = row
            emit(CaseDone(row.case))
    emit(RunDone())
    return tuple(known[key] for key in asked)


def _cost(key: Key) -> int:
    problem = problem_of(key[0])
    rows = problem.batch * problem.heads * problem.queries
    return rows * (problem.keys + 64) * problem.head_dim


def _header(kernel: Kernel) -> str:
    return json.dumps({"kernel": kernel.info.kernel, "source": short(kernel.info.source)})


def _known(journal: Path, header: str) -> dict[Key, Row]:
    """Rows of an earlier call; a last line that was cut is left out."""
    if not journal.exists():
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text(header + "\n")
        return {}
    first, *lines = journal.read_text().split("\n")
    if first != header:
        raise InputError(
            f"{journal.name} of {first}",
            rule="a recording goes on with the kernel it began with",
            fix="name another folder",
        )
    whole = lines[:-1]  # what follows the last line break is nothing, or cut
    journal.write_text("".join(f"{line}\n" for line in (first, *whole)))
    rows = [Row(**json.loads(line)) for line in whole]
    return {row.key: row for row in rows}
