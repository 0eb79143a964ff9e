"""Runs the faulty kernels in processes of their own, and keeps what they answered.

Faults that end like any call share a few processes; one that may hang or spoil its process gets its
own, and a limit. What is already answered in the folder is not run again.

A process is driven as that of a kernel under test is (``conformance.process.child``). It runs many
mutants, since each start of CUDA takes seconds, and one whose context a mutant has spoilt must not
answer for the next.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dmverify.conformance.kernels.bundled import hopper_present
from dmverify.conformance.process.child import Child
from dmverify.conformance.runner import RUN
from dmverify.errors import KernelError, KernelTimeoutError
from dmverify.lab.mutants.catalogue import Key, Mutant
from dmverify.lab.mutants.cuda.answer_files import Reply, read_reply, write_reply
from dmverify.lab.mutants.cuda.table import MUTATIONS

SHARED_PROCESSES, LONE_PROCESSES = 4, 9
SHARED_LIMIT, LONE_LIMIT, HANG_LIMIT, READY_LIMIT = 60.0, 30.0, 5.0, 120.0
"""Seconds from a fault's first launch on: of one that shares its process, of one alone, of one that
``run`` names, which takes milliseconds or for ever; and until a process is ready for a fault."""

CORRECT = "correct"  # how the ids of what must not be rejected begin
DELAYED = f"{CORRECT}-delayed@"  # with the delays of a fault
LAUNCH = "launch"  # what a worker hears once it is ready
WORKER = (sys.executable, "-m", "dmverify.lab.mutants.cuda.worker")


@dataclass(frozen=True)
class Task:
    """What a worker is asked.

    Attributes:
        id: Id of a fault or a control.
        cases: Case ids and contracts.
        alone: Whether it needs a process of its own.
        hangs: Whether ``run`` is the check that names it, as it may hang or fail.
    """

    id: str
    cases: tuple[Key, ...]
    alone: bool = False
    hangs: bool = False


CONTROLS = (f"{CORRECT}-stream", f"{CORRECT}-graph")
"""The hosts of two faults, done right."""


class Worker(Protocol):
    """A running process, see ``conformance.process.child.Child``."""

    def ask(self, line: str, *, what: str, timeout: float) -> str:
        """Sends a line and returns the next one."""
        ...

    def end(self) -> None:
        """Ends it."""
        ...


Start = Callable[[Path], Worker]
"""``start(folder)``: a worker whose replies go there."""


def keys_of(mutants: Sequence[Mutant]) -> tuple[Key, ...]:
    """Every case with its contract, once."""
    return tuple(dict.fromkeys(key for mutant in mutants for key in mutant.keys))


def control_id(key: Key) -> str:
    """The correct kernel on one case, as an id and a file name."""
    return f"{CORRECT}@" + "".join(c if c.isalnum() else "_" for c in "@".join(key))


def delayed_id(mutant: Mutant) -> str:
    """The correct kernel with this mutant's delays, as an id and a file name."""
    return f"{DELAYED}{mutant.id}"


def tasks_of(mutants: Sequence[Mutant]) -> list[Task]:
    """The mutants, and the correct kernel on the same cases."""
    keys = keys_of(mutants)
    tasks = [Task(m.id, m.keys, MUTATIONS[m.id].alone, m.check == RUN) for m in mutants]
    tasks += [Task(control_id(key), (key,)) for key in keys]
    tasks += [Task(delayed_id(m), m.keys) for m in mutants if MUTATIONS[m.id].late]
    return tasks + [Task(name, keys[:1]) for name in CONTROLS]


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    *,
    start: Start | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Reply]:
    """Every task's reply, by id.

    Args:
        tasks: What to run.
        folder: Where answers are and go.
        start: Starts a process; ``start_worker`` unless a test says otherwise.
        progress: Called with the id of each fault that has its reply.

    Raises:
        KernelError: If something has to run and there is no Hopper GPU.
    """
    folder.mkdir(parents=True, exist_ok=True)
    open_ = [task for task in tasks if read_reply(folder, task.id) is None]
    if open_ and start is None and not hopper_present():
        raise KernelError(
            f"{len(open_)} faults without an answer in {folder}",
            rule="faulty CUDA kernels run on a Hopper GPU",
            fix="run them on one, and name the folder of their answers here with --answers",
        )
    many = [task for task in open_ if not task.alone]
    groups = [group for i in range(SHARED_PROCESSES) if (group := many[i::SHARED_PROCESSES])]
    lone = [[task] for task in open_ if task.alone]

    def answered(group: Sequence[Task]) -> None:
        _answer_all(group, folder, start or start_worker, progress)

    with ThreadPoolExecutor(SHARED_PROCESSES) as pool:
        list(pool.map(answered, groups))
    with ThreadPoolExecutor(LONE_PROCESSES) as pool:
        list(pool.map(answered, lone))
    replies = {task.id: read_reply(folder, task.id) for task in tasks}
    return {name: reply for name, reply in replies.items() if reply is not None}


def _answer_all(
    group: Sequence[Task], folder: Path, start: Start, progress: Callable[[str], None]
) -> None:
    """Asks one task after the other; a process that one of them has ended is started again."""
    worker: Worker | None = None
    for task in group:
        worker = worker or start(folder)
        if not _answers(worker, task, folder):
            worker.end()
            worker = None
        progress(task.id)
    if worker is not None:
        worker.end()


def _answers(worker: Worker, task: Task, folder: Path) -> bool:
    """Asks a task and keeps how it fared; whether its process can be asked another one."""
    question = json.dumps({"id": task.id, "cases": task.cases})
    try:
        worker.ask(question, what=f"{task.id}, to be made ready", timeout=READY_LIMIT)
    except KernelError as error:  # also of no answer in time: the fault has not run yet
        write_reply(folder, task.id, Reply("error", reason=str(error)))
        return False
    try:
        return worker.ask(LAUNCH, what=task.id, timeout=_limit(task)) != "crash"
    except KernelTimeoutError as error:
        write_reply(folder, task.id, Reply("timeout", reason=str(error)))
    except KernelError as error:
        write_reply(folder, task.id, Reply(_ended(error), reason=str(error)))
    return False


def _limit(task: Task) -> float:
    if task.hangs:
        return HANG_LIMIT
    return LONE_LIMIT if task.alone else SHARED_LIMIT


def _ended(error: KernelError) -> str:
    """What a process says that ended: an error of CUDA is the kernel's, any other is not."""
    return "crash" if "CUDA" in str(error) else "error"


def start_worker(folder: Path) -> Child:
    """A process of ``worker``."""
    return Child(shlex.join([*WORKER, str(folder)]))
