"""One process of faulty kernels: each answer goes to a file before the next fault runs.

A line on standard input names a fault and its cases, the next one launches it; each is answered by
a line: ``ready``, then how the fault fared.

A process that dies loses only the fault that killed it, and its caller sees which from the files.
Memory that nobody has written yet is NaN, so that what a kernel leaves out shows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled import Bundled
from dmverify.conformance.kernels.bundled_launch import (
    Choices,
    Ran,
    launch,
    launch_forward,
    on_host,
    options_of,
    place,
)
from dmverify.kernel.launch import Options
from dmverify.lab.mutants.answers import known_of
from dmverify.lab.mutants.catalogue import Key
from dmverify.lab.mutants.cuda import hosts
from dmverify.lab.mutants.cuda.answer_files import Reply, write_producer, write_reply
from dmverify.lab.mutants.cuda.drive import CORRECT, DELAYED
from dmverify.lab.mutants.cuda.mutation import RUNS, CudaMutation
from dmverify.lab.mutants.cuda.table import MUTATIONS
from dmverify.spec.case import F32, Case, Outputs

HOSTS = {"correct-stream": hosts.caller_stream, "correct-graph": hosts.graph_fresh}
"""Hosts of two faults, done right: they must not be rejected."""


@dataclass(frozen=True)
class Job:
    """What a process is to run.

    Attributes:
        id: Id of a fault or a control.
        cases: Case ids and contracts.
    """

    id: str
    cases: tuple[Key, ...]


def _alone(case: Case, options: Options) -> tuple[F32, F32]:
    """O and LSE of a forward pass that no backward follows."""
    o, lse = launch_forward(place(case), options)
    return on_host(o), on_host(lse)


def answer_case(job: Job, case: Case) -> tuple[Ran, tuple[F32, F32] | None]:
    """Whole call and, where it differs, the forward alone."""
    options = options_of(case, Choices())
    if job.id in HOSTS:
        return HOSTS[job.id](case, options), None
    if job.id.startswith(CORRECT):
        return launch(place(case), options), _alone(case, options)
    mutation = MUTATIONS[job.id]
    if mutation.host is not None:
        return mutation.host(case, options), None
    changed = mutation.options(options)
    ran = launch(place(case), changed, units=mutation.units or None)
    return ran, _alone(case, changed)


def perform(job: Job) -> Reply:
    """Answers of one job, case by case."""
    answers = []
    for case_id, contract in job.cases:
        case = generate(case_id, contract=contract)
        ran, alone = answer_case(job, case)
        outputs = ran.outputs()
        forward = (outputs.o, outputs.lse) if alone is None else alone
        answers.append((forward, outputs))
    return Reply("answered", tuple(answers))


def race(key: Key, mutation: CudaMutation, *, wrong: bool = True) -> Reply:
    """A matter of timing: how many runs show a wrong bit, and an answer that does."""
    case, bits = known_of(*key).case, known_of(*key).bits
    change = mutation.options if wrong else mutation.delayed
    options = change(options_of(case, Choices()))
    given, other = place(case), place(_before(mutation, case))
    due = {name: torch.from_numpy(np.array(x)).cuda() for name, x in bits.items()}
    shown, caught = None, 0
    for _ in range(RUNS):
        different = [_wrong(given, other, options, due) for _ in range(mutation.racy)]
        seen = [outputs for outputs in different if outputs is not None]
        caught += bool(seen)
        shown = shown or next(iter(seen), None)
    outputs = shown or launch(given, options).outputs()
    return Reply("answered", (((outputs.o, outputs.lse), outputs),), caught=caught, runs=RUNS)


def _before(mutation: CudaMutation, case: Case) -> Case:
    """What the calls alternate with."""
    if not mutation.before:
        return hosts.other_data(case)
    return generate(mutation.before, contract=case.contract)


def _wrong(given: Any, other: Any, options: Options, due: dict[str, Any]) -> Outputs | None:
    """The outputs of a call between calls on other data, if a bit of them is wrong."""
    launch(other, options)
    ran = launch(given, options)
    for name, x in due.items():
        got = getattr(ran, name).float()
        if bool(((got != x) & ~(got.isnan() & x.isnan())).any()):
            return ran.outputs()
    return None


def serve(lines: Iterator[str], folder: Path, *, say: Callable[[str], None]) -> None:
    """Runs one job after the other; the first CUDA error ends it: the process is spoilt.

    Args:
        lines: A job as JSON, then the word to launch it, and so on.
        folder: Where replies go.
        say: Called with each line of an answer.
    """
    fill_memory()
    write_producer(folder, Bundled().info)
    for line in lines:
        row = json.loads(line)
        job = Job(row["id"], tuple((case, contract) for case, contract in row["cases"]))
        runs = _ready(job)
        say("ready")
        next(lines)
        reply = _launched(runs)
        write_reply(folder, job.id, reply)
        say(reply.verdict)
        if reply.verdict == "crash":
            return


def _launched(runs: Callable[[], Reply]) -> Reply:
    start = time.perf_counter()
    try:
        reply = runs()
        torch.cuda.synchronize()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Reply("crash" if "CUDA" in reason else "error", reason=reason)
    return reply.after(time.perf_counter() - start)


def _ready(job: Job) -> Callable[[], Reply]:
    """What launches the job's kernels; what takes long before the first launch has been done."""
    torch.cuda.synchronize()  # starts CUDA
    delayed = job.id.startswith(DELAYED)
    if job.id.startswith(CORRECT) and not delayed:
        return partial(perform, job)
    mutation = MUTATIONS[job.id.removeprefix(DELAYED)]
    if not mutation.racy:
        return partial(perform, job)
    (key,) = job.cases
    _ = known_of(*key).bits
    return partial(race, key, mutation, wrong=not delayed)


def fill_memory() -> None:
    """New tensors hold NaN, or the largest integer, until they are written."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)  # noqa: B010 - untyped


def main(arguments: Sequence[str]) -> None:
    """``worker FOLDER``; what a kernel prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lines = iter(sys.stdin.readline, "")
    serve(lines, Path(arguments[0]), say=lambda line: print(line, file=answers, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
