"""Faults of the mask: who sees whom, and rows that see nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import first_hidden, seeing
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.products import constant
from dmverify.spec.attention.softmax import Scores
from dmverify.spec.case import Case, Outputs
from dmverify.spec.contracts import Contract
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


def _sentinel(original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head) -> Scores:
    s: Scores = original(a, contract, head)
    low = a.div(constant(a, SENTINEL * 1.4426950408889634), s.factor)
    rows, windows, width = s.raw.shape
    real = np.zeros((rows, windows * width), bool)
    real[: case.problem.queries, : case.problem.keys] = True
    seen = real.reshape(s.raw.shape)
    live = seen.any(axis=2, keepdims=True)
    return replace(s, raw=np.where(s.seen, s.raw, low), seen=seen, live=live)


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
    "mask-finite-sentinel": Mutation({"forward.scores": _sentinel}),
    "mask-tail-keys": seeing(_with_padding),
    "dead-rows-nan": _dead({"o": np.nan, "dq": np.nan}),
    "dead-rows-lse-zero": _dead({"lse": 0.0}),
}
"""By the mutant's id."""
