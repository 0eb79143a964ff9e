"""The options that spread a run: over a cluster, or over the machines of a CI matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dmverify.cli.records import as_record
from dmverify.conformance.spread import Spread
from dmverify.conformance.spread.process_workers import with_processes
from dmverify.conformance.spread.ray_workers import with_ray
from dmverify.errors import InputError
from dmverify.shards import WHOLE, read_shard

LOCAL, PROCESSES, RAY = "local", "processes", "ray"


@dataclass(frozen=True)
class Spreading:
    """What the options say.

    Attributes:
        executor: ``LOCAL``, ``PROCESSES`` or ``RAY``.
        gpus: GPUs of a worker.
        shard: ``I/N``.
        resume: Whether an interrupted run goes on.
    """

    executor: str
    gpus: float
    shard: str
    resume: bool

    def over(self, jobs: int, out: Path | None) -> Spread | None:
        """What they ask for; None for a whole run here.

        Args:
            jobs: Processes, or CPUs of a local cluster.
            out: The folder of the reports.

        Raises:
            InputError: For what does not go together.
        """
        part = read_shard(self.shard)
        if self.executor == RAY:
            return Spread(part, with_ray(jobs), self.gpus, out, self.resume)
        if self.gpus:
            raise InputError(
                f"--gpus {self.gpus:g} without a cluster",
                rule="only a cluster hands GPUs to workers; a run here takes those that it sees",
                fix=f"add --executor {RAY}, or leave --gpus out",
            )
        if self.executor == PROCESSES:
            return Spread(part, with_processes(jobs), keep=out, resume=self.resume)
        partial = part != WHOLE or self.resume
        return Spread(part, keep=out, resume=self.resume) if partial else None


def spread_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --executor, --gpus, --shard and --resume; the verb takes ``spreading: Spreading``."""
    command = as_record(Spreading, "spreading")(command)
    for option in (
        click.option(
            "--resume",
            is_flag=True,
            help="Continue an interrupted run over workers, whose findings are in --out.",
        ),
        click.option(
            "--shard",
            metavar="I/N",
            default="0/1",
            help="Judge only every N-th case, from case I on.",
        ),
        click.option(
            "--gpus",
            type=click.FloatRange(0),
            default=0.0,
            help="GPUs of the cluster that each worker needs, such as 1 or 0.5.",
        ),
        click.option(
            "--executor",
            type=click.Choice((LOCAL, PROCESSES, RAY)),
            default=LOCAL,
            show_default=True,
            help="Who judges: this process, -j processes, or the workers of a Ray cluster.",
        ),
    ):
        command = option(command)
    return command
