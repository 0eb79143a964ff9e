"""What is recorded at a probe of a run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmverify.studies.rounding import significant
from dmverify.studies.training.fuse import plainly
from dmverify.studies.training.model import losses
from dmverify.studies.training.state import State

VALIDATED = 32  # sequences at a time


@torch.no_grad()
def validate(state: State, windows: Tensor) -> list[float]:
    """Cross-entropy on the held-out sequences, a seed."""
    job = state.job
    found: list[Tensor] = []
    for start in range(0, len(windows), VALIDATED):
        part = windows[start : start + VALIDATED]
        same = part.expand(len(job.seeds), -1, -1).contiguous()
        with plainly():
            loss = losses(state.models.weights, same, job, state.watch)
        found.append(loss * len(part))
    return [float(x) for x in torch.stack(found).sum(0) / len(windows)]


def probe(state: State) -> None:
    """A step that is measured closely and updates nothing; the window of signs is new after it."""
    job, watch = state.job, state.watch
    watch.probing = True
    with plainly():
        state.models.differentiate(lambda w: losses(w, state.tokens, job, watch))
    watch.probing = False
    for sums in watch.moving.values():
        sums.zero_()


def top_gains(state: State) -> list[list[float | None]] | None:
    """The largest channel's share of sum (g_q g_k)^2, a layer and seed; None without QK-norm."""
    if not state.job.setting.qk_norm:
        return None
    w, found = state.models.weights, []
    for i in range(state.job.setting.layers):
        squares = (w[f"{i}.q.gain"] * w[f"{i}.k.gain"])[:, 0].square()
        found.append(rounded(squares.amax(-1) / squares.sum(-1)))
    return found


def look(state: State, windows: Tensor) -> dict[str, Any]:
    """What is recorded at a probe."""
    signs = state.watch.sign()
    probe(state)
    layers = sorted(state.watch.probes)
    return {
        "step": state.step,
        "loss": None if state.loss is None else rounded(state.loss),
        "validation": [significant(x) for x in validate(state, windows)],
        "sign": [[significant(x) for x in layer] for layer in signs],
        "top_gain": top_gains(state),
        "layers": [
            {name: rounded(values) for name, values in state.watch.probes[i].items()}
            for i in layers
        ],
    }


def rounded(values: Tensor) -> list[float | None]:
    """The numbers, rounded as a record has them."""
    return [significant(x) for x in values]
