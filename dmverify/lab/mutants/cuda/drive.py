"""Runs the faulty kernels in processes of their own, and keeps what they answered.

Faults that end like any call share a few processes; one that may hang or spoil its process gets its
own, and a limit. What is already answered in the folder is not run again.

``conformance.process`` asks one kernel in one process. Here a process runs many mutants, since each
start of CUDA takes seconds, and one whose context a mutant has spoilt must not answer for the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dmverify.conformance.kernels.bundled import hopper_present
from dmverify.conformance.runner import RUN
from dmverify.errors import KernelError
from dmverify.lab.mutants.catalogue import Key, Mutant
from dmverify.lab.mutants.cuda.answer_files import STARTED, Reply, read_reply, write_reply
from dmverify.lab.mutants.cuda.table import MUTATIONS

SHARED_PROCESSES, LONE_PROCESSES = 4, 9
SHARED_LIMIT, LONE_LIMIT, HANG_LIMIT, START_LIMIT = 240.0, 30.0, 5.0, 120.0
"""Seconds from the first launch on: of a process that many faults share, of one fault alone, of one
that ``run`` names, which takes milliseconds or for ever; and of a process's start."""
POLL = 0.1  # seconds between looks at a process

CORRECT = "correct"  # how the ids of what must not be rejected begin
DELAYED = f"{CORRECT}-delayed@"  # with the delays of a fault
WORKER = (sys.executable, "-m", "dmverify.lab.mutants.cuda.worker")


@dataclass(frozen=True)
class Task:
    """One id with its cases, ready for a worker: in a process of its own, and named by ``run``?"""

    id: str
    cases: tuple[Key, ...]
    alone: bool = False
    hangs: bool = False


CONTROLS = (f"{CORRECT}-stream", f"{CORRECT}-graph")
"""The hosts of two faults, done right."""

Spawn = Callable[[Sequence[Task], Path, float], tuple[bool, str]]
"""``spawn(tasks, folder, limit) -> (whether the limit struck, the last words)``."""


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
    spawn: Spawn | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Reply]:
    """Every task's reply, by id.

    Args:
        tasks: What to run.
        folder: Where answers are and go.
        spawn: Starts a process and waits for it; ``spawn_worker`` unless a test says otherwise.
        progress: Called with the id of each fault when its process has ended.

    Raises:
        KernelError: If something has to run and there is no Hopper GPU.
    """
    folder.mkdir(parents=True, exist_ok=True)
    start = spawn or spawn_worker
    open_ = [task for task in tasks if read_reply(folder, task.id) is None]
    if open_ and spawn is None and not hopper_present():
        raise KernelError(
            f"{len(open_)} faults without an answer in {folder}",
            rule="faulty CUDA kernels run on a Hopper GPU",
            fix="run them on one, and name the folder of their answers here with --answers",
        )
    many = [task for task in open_ if not task.alone]
    groups = [group for i in range(SHARED_PROCESSES) if (group := many[i::SHARED_PROCESSES])]
    lone = [[task] for task in open_ if task.alone]

    def together(group: Sequence[Task]) -> None:
        _until_answered(group, folder, SHARED_LIMIT, start, progress)

    def apart(group: Sequence[Task]) -> None:
        limit = HANG_LIMIT if group[0].hangs else LONE_LIMIT
        _until_answered(group, folder, limit, start, progress)

    with ThreadPoolExecutor(SHARED_PROCESSES) as pool:
        list(pool.map(together, groups))
    with ThreadPoolExecutor(LONE_PROCESSES) as pool:
        list(pool.map(apart, lone))
    replies = {task.id: read_reply(folder, task.id) for task in tasks}
    return {name: reply for name, reply in replies.items() if reply is not None}


def _until_answered(
    group: Sequence[Task],
    folder: Path,
    limit: float,
    spawn: Spawn,
    progress: Callable[[str], None],
) -> None:
    """Starts processes until every task has a reply: the first without one ended its process."""
    left = list(group)
    while left:
        struck, words = spawn(left, folder, limit)
        done = [task for task in left if read_reply(folder, task.id) is not None]
        left = [task for task in left if task not in done]
        for task in done:
            progress(task.id)
        if left and not (done and _ended(folder, done[-1])):
            verdict = "timeout" if struck else "crash" if "CUDA" in words else "error"
            write_reply(folder, left[0].id, Reply(verdict, reason=words[-500:]))
            progress(left[0].id)
            left = left[1:]


def _ended(folder: Path, task: Task) -> bool:
    """Whether this task itself reported the end of its process."""
    reply = read_reply(folder, task.id)
    return reply is not None and reply.verdict == "crash"


def spawn_worker(tasks: Sequence[Task], folder: Path, limit: float) -> tuple[bool, str]:
    """One worker process; killed at the limit, which counts from its first fault on."""
    jobs = json.dumps([{"id": task.id, "cases": task.cases} for task in tasks])
    started = folder / f"{tasks[0].id}{STARTED}"
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as said:
        given.write(jobs)
        given.seek(0)
        process = subprocess.Popen([*WORKER, str(folder)], stdin=given, stderr=said)
        began, first = time.monotonic(), 0.0
        while process.poll() is None:
            time.sleep(POLL)
            now = time.monotonic()
            first = first or (now if started.exists() else 0.0)
            if first and now - first > limit:
                _kill(process)
                return True, f"killed after {limit:.0f} seconds"
            if not first and now - began > START_LIMIT:
                _kill(process)
                return False, "the process did not come to its first fault"
        said.seek(0)
        return False, said.read()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process; its driver may need a while to stop a kernel that spins."""
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
