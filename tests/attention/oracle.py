"""Ordinary attention by torch in float64, with autograd: an oracle that nobody here wrote."""

import numpy as np
import torch

from dmverify.spec.case import Inputs
from dmverify.spec.formats import BF16
from dmverify.spec.problem import Problem


def gaussian(problem: Problem, *, seed: int = 0, spread: float = 1.0) -> Inputs:
    """Standard normal inputs, q times a logit spread, rounded to BF16."""
    rng = np.random.default_rng(seed)
    shapes = problem.shapes()
    drawn = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in ("q", "k", "v", "do")}
    drawn["q"] *= np.float32(spread)
    return Inputs(**{name: BF16.round(x) for name, x in drawn.items()})


def attention(problem: Problem, inputs: Inputs) -> dict[str, np.ndarray]:
    """O, LSE, dQ, dK and dV in float64; dead rows give 0 and -inf."""
    t = {
        name: torch.tensor(x, dtype=torch.float64, requires_grad=name != "do")
        for name, x in inputs.items()
    }
    q, k, v = (t[name].transpose(1, 2) for name in "qkv")
    k, v = (x.repeat_interleave(problem.group, 1) for x in (k, v))
    seen = torch.tensor(problem.mask())
    logits = (q @ k.transpose(-1, -2) * problem.scale).masked_fill(~seen, -torch.inf)
    lse = torch.logsumexp(logits, -1)
    safe = torch.where(lse.isinf(), 0.0, lse)[..., None]
    p = torch.where(seen.any(-1)[:, None], torch.exp(logits - safe), 0.0)
    o = (p @ v).transpose(1, 2)
    o.backward(t["do"])
    grads = {f"d{name}": t[name].grad.numpy() for name in "qkv"}
    return {"o": o.detach().numpy(), "lse": lse.detach().numpy(), **grads}
