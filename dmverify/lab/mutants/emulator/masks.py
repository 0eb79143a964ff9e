"""The mask: who sees whom, and rows that see nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import first_hidden, seeing
from dmverify.spec.attention.num import where
from dmverify.spec.attention.state import Scores
from dmverify.spec.case import Case, Outputs
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

SENTINEL = -1e4  # a logit that some kernels write where the mask hides a key


def _top_left(p: Problem, i: Array, j: Array) -> Array:
    return (j <= i) & (j < p.keys)


def _further(p: Problem, i: Array, j: Array) -> Array:
    return j < first_hidden(p, i) + 1


def _nearer(p: Problem, i: Array, j: Array) -> Array:
    return j < first_hidden(p, i) - 1


def _with_padding(p: Problem, i: Array, j: Array) -> Array:
    return j <= i + p.offset if p.causal else (j >= 0) & (i >= 0)


def _sentinel(call: Call) -> Scores:
    s: Scores = call.result()
    low = SENTINEL * 1.4426950408889634 / s.scale
    rows, windows, width = s.acc.shape
    real = np.zeros((rows, windows * width), bool)
    real[: call.case.problem.queries, : call.case.problem.keys] = True
    seen = real.reshape(s.acc.shape)
    live = seen.any(axis=2, keepdims=True)
    return replace(s, acc=where(s.seen, s.acc, low), seen=seen, live=live)


def _dead(change: dict[str, float]) -> Mutation:
    """Other values on rows that see no key."""

    def outputs(made: Outputs, case: Case) -> Outputs:
        dead = ~case.problem.mask().any(axis=1)
        changed = {name: getattr(made, name).copy() for name in change}
        for name, value in change.items():
            changed[name][(..., dead) if name == "lse" else (slice(None), dead)] = value
        return replace(made, **changed)

    return Mutation(outputs=outputs)


MUTATIONS = {
    "mask-top-left": seeing(_top_left),
    "mask-one-further": seeing(_further),
    "mask-one-nearer": seeing(_nearer),
    "mask-finite-sentinel": Mutation({"windows.scores": _sentinel}),
    "mask-tail-keys": seeing(_with_padding),
    "dead-rows-nan": _dead({"o": np.nan, "dq": np.nan}),
    "dead-rows-lse-zero": _dead({"lse": 0.0}),
}
"""By the mutant's id."""
