"""Ordinary attention in float64 on a case's inputs, to check what families claim."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.spec.case import Case


@dataclass(frozen=True)
class Attention:
    """Logits (masked: -inf), probabilities and outputs of a case, (B, H, Nq, ...)."""

    logits: np.ndarray
    p: np.ndarray
    o: np.ndarray
    dp: np.ndarray
    lse: np.ndarray


def heads_first(case: Case) -> dict[str, np.ndarray]:
    """float64 tensors (B, H, N, D), key heads repeated for their group."""
    out = {name: x.astype(np.float64).swapaxes(1, 2) for name, x in case.inputs.items()}
    for name in ("k", "v"):
        out[name] = out[name].repeat(case.problem.group, axis=1)
    return out


def attention(case: Case) -> Attention:
    x = heads_first(case)
    logits = x["q"] @ x["k"].swapaxes(-1, -2) * case.problem.scale
    logits = np.where(case.problem.mask(), logits, -np.inf)
    top = logits.max(-1, keepdims=True)
    e = np.exp(logits - top)
    total = e.sum(-1, keepdims=True)
    p = e / total
    lse = (top + np.log(total))[..., 0]
    return Attention(logits, p, p @ x["v"], x["do"] @ x["v"].swapaxes(-1, -2), lse)


@pytest.fixture
def solve():
    return lambda case_id: attention(generate(case_id))
