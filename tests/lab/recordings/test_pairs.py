"""Stage ``pairs`` on a CPU: the specification answers for the kernel, rightly and wrongly."""

from dataclasses import replace

import pytest
import torch

from dmverify.conformance.kernels.bundled_launch import Ran, on_host
from dmverify.lab.acceptance import pairs
from dmverify.lab.acceptance.pairs import EDGE, MANY, QUESTIONS, Question, compare, sample
from dmverify.lab.recordings.shipped import expected
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

CONTRACT = "bundled:delta=stale"
PROBLEM = Problem(3, 4, 2, 2, 3, 64, causal=True)
NAMES = ("o", "lse", "dq", "dk", "dv", "delta")


@pytest.fixture
def answered(monkeypatch):
    """Lets the specification answer for the kernel; what it gives passes through a function."""

    def install(change):
        def launch(tensors, options):
            inputs = Inputs(**{n: on_host(getattr(tensors, n)) for n in ("q", "k", "v", "do")})
            due = expected(Case("all", CONTRACT, PROBLEM, inputs))
            return change(Ran(**{n: torch.from_numpy(getattr(due, n)) for n in NAMES}))

        monkeypatch.setattr(pairs, "launch", launch)
        monkeypatch.setattr(pairs, "EDGE", 6)  # of 12 pairs

    return install


def test_right_answers_agree(answered):
    answered(lambda ran: ran)
    row = compare(Question(PROBLEM, CONTRACT), device="cpu")
    assert (row["pairs"], row["key heads judged"], row["wrong"]) == (12, 6, {})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pair", [(0, 0), (1, 2), (2, 3)])
def test_one_bit_of_one_head_is_seen(answered, name, pair):
    def change(ran):
        x = getattr(ran, name).clone()
        batch, head = pair
        head = head // 2 if name in ("dk", "dv") else head
        one = x[batch, head] if name in ("lse", "delta") else x[batch, :, head]
        one[(0,) * one.dim()] += 1.0
        return replace(ran, **{name: x})

    answered(change)
    assert compare(Question(PROBLEM, CONTRACT), device="cpu")["wrong"] == {name: 1}


def test_heads_in_another_order_are_seen(answered):
    answered(lambda ran: replace(ran, o=ran.o.roll(1, 0), dk=ran.dk.roll(1, 2)))
    assert set(compare(Question(PROBLEM, CONTRACT), device="cpu")["wrong"]) == {"o", "dk"}


def test_the_questions_reach_beyond_the_edge_and_the_sample_looks_there():
    sizes = [q.problem.batch * q.problem.heads for q in QUESTIONS]
    assert min(sizes) == EDGE + 1
    assert max(sizes) == MANY
    assert {q.problem.head_dim for q in QUESTIONS} == {64, 128, 256}
    for question in QUESTIONS:
        problem, at = question.problem, sample(question.problem)
        seen = {i * problem.group + g for i in at for g in range(problem.group)}
        last = problem.batch * problem.heads - 1
        assert seen >= {0, EDGE - 1, EDGE, last}
