"""A run under way: its models, what it will read, and how it takes steps.

On a GPU the steps after the first few are one graph, replayed; no step waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmverify.studies.training.corpus import Corpus, load_corpus
from dmverify.studies.training.job import Job
from dmverify.studies.training.model import Models, losses, new_models, raw
from dmverify.studies.training.optimiser import AdamW, numbers
from dmverify.studies.training.watch import Watch

WINDOWS = 128  # sequences of the validation
EAGER = 3  # steps before a graph is captured
AHEAD = 20  # steps that the host may be ahead of the device
Stop = Callable[[], bool]


@dataclass
class State:
    """A run under way."""

    job: Job
    models: Models
    optimiser: AdamW
    watch: Watch
    tokens: Tensor  # of the step to come, (S, B, N + 1)
    step: int = 0
    loss: Tensor | None = None
    record: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What every step of a run will read, on the device, so that no step waits for the host."""

    text: Tensor
    starts: Tensor  # (steps + 1, S, B)
    numbers: Tensor  # (steps + 1, 3)
    windows: Tensor

    @classmethod
    def of(cls, job: Job, device: str) -> Plan:
        """The plan of a job: a seed's batches do not depend on the recipe."""
        corpus = load_corpus(job.setting.corpus)
        limit = np.uint64(len(corpus.training) - job.setting.context - 1)
        starts = [
            [raw(seed, 1 << 32 | step, job.setting.batch) % limit for seed in job.seeds]
            for step in range(job.steps + 1)
        ]
        rates = [numbers(job.setting, step) for step in range(job.steps + 1)]
        return cls(
            torch.from_numpy(corpus.training.copy()).to(device),
            torch.from_numpy(np.array(starts).astype(np.int64)).to(device),
            torch.tensor(rates, device=device),
            held_out(job, corpus).to(device),
        )

    def tokens(self, step: int, length: int) -> Tensor:
        """The symbols of a step, (S, B, length)."""
        offsets = torch.arange(length, device=self.text.device)
        return self.text[self.starts[step][..., None] + offsets].long()


def held_out(job: Job, corpus: Corpus) -> Tensor:
    """Sequences spread evenly over the held-out text, (windows, N + 1)."""
    n = job.setting.context + 1
    starts = np.linspace(0, len(corpus.held_out) - n, WINDOWS).astype(np.int64)
    return torch.from_numpy(corpus.held_out[starts[:, None] + np.arange(n)].astype(np.int64))


def begin(job: Job, device: str) -> State:
    """A run before its first step."""
    models = new_models(job.setting, job.seeds, device)
    s, b, n = len(job.seeds), job.setting.batch, job.setting.context + 1
    tokens = torch.zeros(s, b, n, dtype=torch.int64, device=device)
    return State(job, models, AdamW(models), Watch(s, job.setting.heads), tokens)


def advance(state: State) -> Tensor:
    """One step: loss, gradient, update. The loss of every seed."""
    job = state.job
    loss = state.models.differentiate(lambda w: losses(w, state.tokens, job, state.watch))
    state.optimiser.step()
    return loss


def points(state: State, plan: Plan, stop: Stop) -> Iterator[State]:
    """Trains; yields the state at every probe and at the last step, with that step's tokens.

    Ends after the last step, or when ``stop`` says so.
    """
    job = state.job
    torch.backends.cuda.matmul.allow_tf32 = job.precision == "tf32"
    step = Stepper(state)
    while True:
        state.tokens.copy_(plan.tokens(state.step, job.setting.context + 1))
        if state.step % job.probe == 0 or state.step == job.steps:
            yield state
        if state.step == job.steps or _over(state, stop):
            return
        state.optimiser.numbers.copy_(plan.numbers[state.step])
        state.loss = step()
        state.step += 1


def _over(state: State, stop: Stop) -> bool:
    """Asks now and then, after the device has caught up: it may be many steps behind."""
    if state.step % AHEAD:
        return False
    if state.tokens.device.type == "cuda":
        torch.cuda.synchronize()
    return stop()


class Stepper:
    """Takes steps: the first few one operation at a time, the others, on a GPU, as one graph."""

    def __init__(self, state: State) -> None:
        self._state, self._taken = state, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss: Tensor | None = None

    def __call__(self) -> Tensor:
        """One step; the loss of every seed."""
        state = self._state
        self._taken += 1
        if state.tokens.device.type != "cuda":
            return advance(state)
        if self._taken <= EAGER:
            with _beside():
                return advance(state)
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._loss = advance(state)
        self._graph.replay()
        assert self._loss is not None
        return self._loss


@contextmanager
def _beside() -> Iterator[None]:
    """A stream of its own, as a capture wants what it meets to have run before."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)
