"""Rows and gains under a row sum that is not zero, taken from a model while it trains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmverify.studies.rounding import significant
from dmverify.studies.training.corpus import load_corpus
from dmverify.studies.training.job import Job
from dmverify.studies.training.look import probe
from dmverify.studies.training.runs import machine
from dmverify.studies.training.state import Plan, begin, points
from dmverify.studies.training.watch import entropy

STEP = 1e-3  # h times the median of half of sum |dS|
NEARLY_UNIFORM = 1e-2  # nats below the largest entropy


def observe(job: Job, *, device: str = "cpu") -> dict[str, Any]:
    """Trains a job; its record has one row a probe, layer and seed."""
    text = load_corpus(job.setting.corpus).describe()
    record = job.describe() | {"text": text, "machine": machine(torch.device(device))}
    return record | {"rows": _rows(job, device)}


def _rows(job: Job, device: str) -> list[dict[str, Any]]:
    plan, state = Plan.of(job, device), begin(job, device)
    found: list[dict[str, Any]] = []
    sums: dict[tuple[int, int], list[Tensor]] = {}
    for at in points(state, plan, lambda: False):
        probe(at)
        for layer, (q, k, p, ds) in at.watch.kept.items():
            gain = at.models.weights[f"{layer}.k.gain"].detach()
            for i, seed in enumerate(job.seeds):
                mine = slice(i * len(q) // len(job.seeds), (i + 1) * len(q) // len(job.seeds))
                rows = p[mine].double(), ds[mine].double()
                added = _added(q[mine].double(), k[mine].double() / gain[i].double(), *rows)
                sums.setdefault((layer, i), []).append(added.sum((0, 1)))
                where = {"delta": job.recipe.delta, "step": at.step, "layer": layer, "seed": seed}
                found.append(where | entropies(*rows) | _push(added))
    for row in found:
        row["persist"] = _share(torch.stack(sums[row["layer"], job.seeds.index(row["seed"])]))
    return found


def excess(p: Tensor, ds: Tensor) -> Tensor:
    """eps: the row sum of dS over that of P, (G, N, 1)."""
    return ds.sum(-1, keepdim=True) / p.sum(-1, keepdim=True)


def entropies(p: Tensor, ds: Tensor) -> dict[str, float | None]:
    """How eps moves the entropy of rows, beside the first-order statement; float64 (G, N, N)."""
    eps = excess(p, ds)
    seen = torch.arange(1, p.shape[-1] + 1, device=p.device).log()
    live = (seen - entropy(p) > NEARLY_UNIFORM) & (eps[..., 0] != 0)
    size = ds.abs().sum(-1)[live] / 2
    h = STEP / size.median()
    change = (stepped(p, h * ds) - stepped(p, h * (ds - eps * p)))[live]
    logs = torch.log(p.clamp(min=1e-300))
    stated = (h * eps[..., 0] * (p.square() * (logs + entropy(p)[..., None])).sum(-1))[live]
    below = stated < 0
    return {
        "agree": significant(((change < 0) == below).double().mean()),
        "slope": significant((change * stated).sum() / stated.square().sum()),
        "sharpened": significant(change[below].mean()),
        "flattened": significant(change[~below].mean()),
        "eps": significant((eps[..., 0][live].abs() / size).median()),
    }


def stepped(p: Tensor, step: Tensor) -> Tensor:
    """The entropy of rows after their logits lost ``step``."""
    hidden = p == 0
    logits = (torch.log(p.clamp(min=1e-300)) - step).masked_fill(hidden, -torch.inf)
    return entropy(logits.softmax(-1))


def _added(q: Tensor, k: Tensor, p: Tensor, ds: Tensor) -> Tensor:
    """What eps adds to the gradient of the key gains, a row: (G, N, D)."""
    scale: float = q.shape[-1] ** -0.5
    return excess(p, ds) * q * torch.bmm(p, k) * scale


def _push(added: Tensor) -> dict[str, float | None]:
    rows = added.flatten(0, 1)
    return {"push": _share(rows), "random": significant(len(rows) ** -0.5)}


def _share(rows: Tensor) -> float | None:
    """|sum| / sum of magnitudes over the first axis, median over the last."""
    return significant((rows.sum(0).abs() / rows.abs().sum(0).clamp(min=1e-300)).median())
