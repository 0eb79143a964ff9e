"""Engines find worse inputs than drawing does; evaluations and seed decide, not stops or jobs."""

import numpy as np
import pytest
import torch

from dmverify.attack import search
from dmverify.attack.checkpoint import load, save
from dmverify.attack.engines import ENGINES, Best, Turn
from dmverify.attack.explain import explain
from dmverify.attack.first_order import first_order
from dmverify.attack.limits import near
from dmverify.attack.objective import read_objective
from dmverify.attack.run import Settings
from dmverify.attack.shrink import FEW as FEW_QUERIES
from dmverify.attack.shrink import Anything, shrink
from dmverify.attack.stack import Stack
from dmverify.attack.starts import from_capture
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.problem import Problem
from tests.attack.conftest import SMALL, drawn

FEW = 4000


def found_by(engine, evaluator, evaluations=FEW, start=None):
    best = Best()
    if start is not None:
        best.add(start, evaluator.values(start))
    ENGINES[engine](Turn(evaluator, evaluations, np.random.default_rng(0), best))
    return best


@pytest.mark.parametrize(("engine", "times"), [("family", 1.2), ("cma", 2), ("gradient", 3)])
def test_an_engine_beats_drawing(engine, times, evaluator):
    drawn_alone = found_by("random", evaluator()).value
    assert found_by(engine, evaluator()).value > times * drawn_alone


@pytest.mark.parametrize("engine", ["corners", "rows", "hill"])
def test_an_engine_improves_on_a_start(engine, evaluator):
    start = found_by("random", evaluator(), 500).stack
    assert found_by(engine, evaluator(), start=start).value > 1.1 * float(
        evaluator().values(start).max()
    )


@pytest.mark.parametrize("objective", ["o", "dq", "dv"])  # keys of dK share the softmax's rows
@pytest.mark.parametrize("problem", [SMALL, Problem(1, 4, 2, 8, 12, 32, causal=True)])
def test_rows_searched_by_themselves_beat_hill_climbing(objective, problem, evaluator):
    """In as many evaluations, against the operands, where no input alone decides an error."""
    values = {}
    for engine in ("rows", "hill"):
        asked = evaluator(objective, "operands", problem=problem)
        start = drawn(problem, 8, spread=0.8)
        values[engine] = found_by(engine, asked, 2000, asked.limits.repair(problem, start)).value
        assert asked.count <= 2100
    assert values["rows"] > values["hill"]


def test_rows_of_what_is_no_error_of_an_output_are_climbed(evaluator):
    start = drawn(SMALL, 4, spread=0.8)
    found = [found_by(e, evaluator("colsum"), 300, start).values for e in ("rows", "hill")]
    assert torch.equal(*found)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_seed_decides(engine, evaluator):
    start = found_by("random", evaluator(), 100).stack
    first, second = (found_by(engine, evaluator(), 600, start) for _ in range(2))
    assert torch.equal(first.values, second.values)
    assert first.value <= 10


def test_near_a_capture_the_error_grows_and_stays_in_the_box(evaluator):
    problem, centre = from_capture("minilm-short/layer5", 64)
    asked = evaluator(problem=problem)
    asked.limits = near(centre, 0.03)
    attempt = search.attack(asked, seed=0, evaluations=1500, start=centre)
    assert attempt.best.value > 1.8 * float(asked.values(centre)[0])
    assert asked.limits.hold(problem, attempt.worst).all()


@pytest.mark.parametrize(
    ("capture", "contract", "evaluations"),
    [
        ("minilm-short/layer5", "article", 3000),
        ("minilm-short/layer5", "article:delta=stale", 5000),
        ("chars-step800/layer1", "article:delta=stale", 10_000),
    ],
)
def test_near_a_capture_half_of_what_roundings_could_make_is_made(
    capture, contract, evaluations, evaluator
):
    problem, centre = from_capture(capture, 64)
    asked = evaluator(problem=problem, contract=contract)
    asked.limits = near(centre, 0.03)
    attempt = search.attack(asked, seed=0, evaluations=evaluations, start=centre)
    assert first_order(asked, attempt.worst).share >= 0.5
    assert first_order(asked, centre).share < 0.25


def test_a_stop_and_another_call_find_what_one_call_finds(evaluator, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "ROUND", 700)
    settings = Settings(
        "simulation", "article", SMALL, read_objective("dq", "inputs"), evaluations=1400
    )
    whole = search.attack(evaluator(), seed=3, evaluations=1400)
    object.__setattr__(settings, "state", tmp_path)
    stopped = search.attack(
        evaluator(), seed=3, evaluations=1400, seconds=0.0, save=lambda a: save(settings, a)
    )
    assert stopped.rounds == 0
    part = search.attack(evaluator(), seed=3, evaluations=700, save=lambda a: save(settings, a))
    assert part.rounds == 1
    again = search.attack(evaluator(), seed=3, evaluations=1400, attempt=load(settings, 3))
    assert torch.equal(again.best.values, whole.best.values)
    assert again.evaluations == whole.evaluations


def test_one_engine_alone_draws_what_it_draws(evaluator):
    alone = search.attack(evaluator(), seed=3, evaluations=400, engine="random")
    assert alone.gains.keys() == {"random"}
    assert alone.best.value > 0
    with pytest.raises(UnknownNameError, match="engine"):
        search.attack(evaluator(), seed=3, evaluations=400, engine="randm")


def test_a_state_of_another_attack_is_refused(tmp_path):
    objective = read_objective("dq", "inputs")
    settings = Settings("simulation", "article", SMALL, objective, state=tmp_path)
    attempt = search.Attempt(0)
    attempt.best.add(drawn(SMALL), torch.ones(1, dtype=torch.float64))
    save(settings, attempt)
    assert load(settings, 0).best.value == 1
    assert load(settings, 1) is None
    other = Settings("simulation", "upstream", SMALL, objective, state=tmp_path)
    with pytest.raises(InputError, match="another attack"):
        load(other, 0)
    (tmp_path / "seed-0.safetensors").write_bytes(b"\x10" + bytes(40))
    with pytest.raises(InputError, match="state of an attack"):
        load(settings, 0)


class OnePair(Simulation):
    """Wrong where a query's element is 2 and a key's is 1.5 in channel 7: dQ of that query is 0."""

    def backward(self, case):
        outputs = super().backward(case)
        q, k = case.inputs.q[..., 7], case.inputs.k[..., 7]
        wrong = (q == 2)[:, :, :, None] & (k == 1.5).any(1)[:, None, :, None]
        outputs.dq[np.broadcast_to(wrong, outputs.dq.shape)] = 0
        return outputs


def test_a_fault_of_one_pair_of_codes_is_shrunk_to_that_pair(evaluator):
    asked = evaluator(kernel=OnePair())
    stack = drawn(SMALL, seed=5)
    q, k = stack.q, stack.k
    q[0, 9, 0, 7], k[0, 4, 0, 7] = 2.0, 1.5
    small = shrink(asked, stack)
    assert small.problem.queries == 1
    assert small.problem.keys <= 3
    assert small.value >= 0.9 * float(shrink(asked, stack, keep=1.0).value) * 0.9
    assert 2.0 in small.stack.q
    assert 1.5 in small.stack.k
    assert small.nonzeros < 60


def test_an_error_that_many_queries_made_is_made_by_four(evaluator):
    """Of dK, to which every query adds: deletion alone leaves more of them."""
    asked = evaluator("dk")
    attempt = search.attack(asked, seed=0, evaluations=6000)
    small = shrink(asked, attempt.worst)
    assert small.problem.queries <= FEW_QUERIES
    assert small.value >= 0.9 * attempt.best.value
    again = evaluator("dk", problem=small.problem)
    again.limits = Anything()
    assert float(again.values(small.stack)[0]) == small.value


@pytest.mark.parametrize("against", ["inputs", "operands"])
@pytest.mark.parametrize("objective", ["o", "dq", "dk", "dv"])
def test_first_order_tells_where_the_error_comes_from(objective, against, evaluator):
    estimate = first_order(evaluator(objective, against), drawn(SMALL, spread=0.8))
    made = sum(term.made for term in estimate.terms)
    assert made == pytest.approx(estimate.error, rel=0.15)
    assert 0.02 < estimate.share < 1
    for term in estimate.terms:
        assert abs(term.made) <= term.worst * (1 + 1e-3)
    names = {term.name for term in estimate.terms}
    assert ("V" in names) is (against == "inputs" and objective != "dv")


def test_exact_numbers_have_no_room_in_a_first_order_estimate(evaluator):
    """A block's largest number and zeros are exact; behind a mask there are zeros alone."""
    stack = drawn(SMALL, spread=0.8)
    one = Problem(1, 1, 1, 1, 1, 32, causal=False)
    first = Stack(*(x[:, :1] for x in stack.tensors()))
    alone = first_order(evaluator("o", problem=one), first)
    worst = {term.name: term.worst for term in alone.terms}
    assert worst["weights"] == 0  # of one key: 1, which is the block's largest
    v = first.v.abs().flatten()
    assert worst["V"] <= float((v.sum() - v.max()) * 2**-4)


def test_stale_s_error_is_delta_s(evaluator):
    asked = evaluator(against="operands", contract="article:delta=stale")
    stack = drawn(SMALL, spread=0.8)
    moved = Stack(stack.q, stack.k, (stack.v + 2).bfloat16().float(), stack.do)
    estimate = first_order(asked, moved)
    assert estimate.terms[0].name == "delta"
    assert estimate.terms[0].made > 0.5 * estimate.error


def test_shares_of_another_contract_are_told_as_such(evaluator):
    stack = drawn(SMALL, spread=0.8)
    assert "simulation" not in explain(evaluator(), stack).words[0]
    other = evaluator(contract="bundled", kernel=Emulator())
    assert "simulation under article" in explain(other, stack).words[0]
