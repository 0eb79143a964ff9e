"""Mutations that several parts of the kernel share: masks, tensors read or stored differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import Prepared
from dmverify.spec.case import F32, Case, Inputs, Outputs
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

INPUTS = ("q", "k", "v", "do")
TENSORS = ("o", "dq", "dk", "dv")
WINDOW = 64


def seeing(rule: Callable[[Problem, Array, Array], Array]) -> Mutation:
    """Another mask: ``rule(problem, query, key)``; queries beyond the last are always masked."""

    def step(call: Call) -> Prepared:
        prepared: Prepared = call.result()
        i, j = np.ogrid[: prepared.seen.shape[0], : prepared.seen.shape[1]]
        seen = rule(call.case.problem, i, j) & (i < call.case.problem.queries)
        return replace(prepared, seen=seen)

    return Mutation({"run.prepare": step})


def with_array(x: Num, change: Callable[[Array], Array]) -> Num:
    """A number of the same arithmetic with another array."""
    return Num(change(x.array), x.a)


def first_hidden(p: Problem, i: Array) -> Array:
    """The first key that query i does not see."""
    return np.minimum(i + p.offset + 1, p.keys) if p.causal else np.full_like(i, p.keys)


def last_window(case: Case) -> int:
    """The last window of keys that is not padding."""
    return (case.problem.keys - 1) // WINDOW


def reading(change: Callable[[F32], F32], *names: str) -> Mutation:
    """Inputs that are read differently."""

    def inputs(read: Inputs) -> Inputs:
        return Inputs(**{n: change(x) if n in names else x for n, x in read.items()})

    return Mutation(inputs=inputs)


def storing(change: Callable[[F32], F32], *names: str) -> Mutation:
    """Outputs that are stored differently."""

    def outputs(made: Outputs, case: Case) -> Outputs:
        changed = {name: change(getattr(made, name)).astype(np.float32) for name in names}
        return replace(made, **changed)

    return Mutation(outputs=outputs)
