"""Stage ``pairs``: more pairs of batch and head than any dimension of a grid but the first has.

Random tensors, every output, forward and backward. The specification computes a sample of the key
heads with all query heads that read them: a head's bits depend on no other head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dmverify.conformance.kernels.bundled_launch import (
    Choices,
    Ran,
    Tensors,
    launch,
    on_host,
    options_of,
)
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.shipped import differing, expected
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

EDGE = 1 << 16  # dimensions of a grid but the first end one below
MANY = 1 << 17
SAMPLE = 32  # places of the even part of the sample
SEED = 11


@dataclass(frozen=True)
class Question:
    """Sizes and a contract."""

    problem: Problem
    contract: str


QUESTIONS = (
    Question(Problem(EDGE + 1, 1, 1, 1, 2, 64, causal=True), "bundled"),
    Question(Problem(1, EDGE + 1, EDGE + 1, 2, 1, 64, causal=False), "bundled"),
    Question(Problem(MANY, 1, 1, 2, 2, 64, causal=True), "bundled:delta=shifted,ds_cast=zero-sum"),
    Question(Problem(1, MANY, MANY, 1, 1, 64, causal=True), "bundled:delta=stale"),
    Question(Problem(MANY // 8, 8, 2, 2, 3, 128, causal=True), "bundled"),
    Question(Problem(MANY // 8, 8, 2, 3, 2, 128, causal=False), "bundled:delta=associated"),
    Question(Problem(MANY // 2, 2, 1, 2, 2, 256, causal=True), "bundled:ds_cast=zero-sum"),
)


def run(session: Session) -> dict[str, Any]:
    """Every question; the time limit can cut them."""
    rows = []
    for question in QUESTIONS:
        if session.over:
            break
        rows.append(compare(question))
        torch.cuda.empty_cache()
    good = len(rows) == len(QUESTIONS) and not any(row["wrong"] for row in rows)
    return {"ok": good, "rows": rows}


def compare(question: Question, *, device: str = "cuda") -> dict[str, Any]:
    """One question: how many numbers of each output of the sample differ."""
    problem = question.problem
    generator = torch.Generator(device).manual_seed(SEED)
    shapes = problem.shapes()
    drawn = {
        name: torch.randn(shapes[name], generator=generator, device=device).to(torch.bfloat16)
        for name in ("q", "k", "v", "do")
    }
    at = sample(problem)
    inputs = Inputs(**{name: on_host(part(name, x, problem, at)) for name, x in drawn.items()})
    small = replace(problem, batch=len(at), heads=problem.group, kv_heads=1)
    case = Case("pairs/sample", question.contract, small, inputs)
    got = launch(Tensors(**drawn), options_of(case, Choices()))
    wrong = differences(got, expected(case), problem, at)
    return {
        "pairs": problem.batch * problem.heads,
        "sizes": str(problem),
        "contract": question.contract,
        "key heads judged": len(at),
        "wrong": {name: count for name, count in wrong.items() if count},
    }


def differences(got: Ran, due: Any, problem: Problem, at: list[int]) -> dict[str, int]:
    """How many numbers of the sample differ from the specification's, by output."""
    names = ("o", "lse", "delta", "dq", "dk", "dv")
    found = {name: on_host(part(name, getattr(got, name), problem, at)) for name in names}
    return {
        name: differing(np.ascontiguousarray(x), getattr(due, name)) for name, x in found.items()
    }


def sample(problem: Problem) -> list[int]:
    """Key heads over the batch: evenly spread ones, both ends, and both sides of the edge."""
    count = problem.batch * problem.kv_heads
    edge = EDGE // problem.group  # the key head of pair EDGE
    picked = {*range(0, count, -(-count // SAMPLE)), 0, count - 1, edge - 1, edge, edge + 1}
    return sorted(i for i in picked if 0 <= i < count)


def part(name: str, x: torch.Tensor, problem: Problem, at: list[int]) -> torch.Tensor:
    """The sample of one tensor: a batch of single key heads, each with its query heads."""
    rows = name in ("lse", "delta")  # (B, H, N); all else is (B, N, H, D)
    wide = x if rows else x.transpose(1, 2)
    own = 1 if name in ("k", "v", "dk", "dv") else problem.group
    picked = wide.reshape(-1, own, *wide.shape[2:])[at]
    return picked if rows else picked.transpose(1, 2)
