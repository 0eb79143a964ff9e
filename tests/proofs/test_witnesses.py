"""Stored witnesses replay, say the same through the encoding, and are refused when changed."""

from fractions import Fraction

import pytest
import z3

from dmverify.errors import RecordingError
from dmverify.proofs import all_lemmas, get_lemma, load, store
from dmverify.proofs.runner import replays
from dmverify.proofs.solve import refutation, variables, z3_check

PATIENT = 86400.0  # seconds: what a solver can answer it answers, however slow the machine is
IDS = [entry.id for entry in all_lemmas()]


def goals_of(witness):
    entry = get_lemma(witness.id)
    pick = [
        {goal.name: goal for goal in entry.build(c)}[witness.goal]
        for c in (witness.constant, witness.control)
    ]
    assert (entry.constant, entry.control) == (witness.constant, witness.control)
    return pick


def numeral(variable, value):
    if z3.is_bv(variable):
        return z3.BitVecVal(int(value), variable.size())
    if z3.is_int(variable):
        return z3.IntVal(int(value))
    return z3.RealVal(str(Fraction(value)))


def holds(formula, values):
    pairs = [(v, numeral(v, values[str(v)])) for v in variables([formula])]
    return z3.is_true(z3.simplify(z3.substitute(formula, *pairs)))


@pytest.mark.parametrize("lemma_id", IDS)
def test_stored_witness_replays(lemma_id):
    witness = load(lemma_id)
    genuine, control = goals_of(witness)
    assert replays(genuine, control, witness.values)


@pytest.mark.parametrize("lemma_id", IDS)
def test_encoding_and_replay_agree_on_the_witness(lemma_id):
    witness = load(lemma_id)
    genuine, control = goals_of(witness)
    assert all(holds(formula, witness.values) for formula in refutation(control))
    inside = all(holds(formula, witness.values) for formula in genuine.hypotheses)
    outcome = genuine.replay(witness.values)
    assert inside <= holds(genuine.conclusion, witness.values)
    assert inside == outcome.hypotheses


@pytest.mark.parametrize("lemma_id", IDS)
def test_encoding_and_replay_agree_elsewhere(lemma_id):
    """Models on both sides of the conclusion, for the lemma and for its control."""
    entry = get_lemma(lemma_id)
    for c in (entry.constant, entry.control):
        for goal in entry.build(c):
            for wanted in (True, False):
                side = goal.conclusion if wanted else z3.Not(goal.conclusion)
                status, values = z3_check((*goal.hypotheses, *goal.guide, side), timeout=PATIENT)
                if goal.replay is not None and status == "sat":
                    outcome = goal.replay(values)
                    # Some encodings admit more than fp32 does; then no concrete input exists.
                    assert outcome.conclusion == wanted or not outcome.hypotheses
                    assert outcome.hypotheses or lemma_id in WIDER


WIDER = {"carry-clamped", "cast-perturbation", "wgmma-no-overflow"}


def test_a_witness_of_something_else_is_refused():
    witness = load("e4m3-error")
    genuine, control = goals_of(witness)
    assert not replays(genuine, control, {**witness.values, "x": Fraction(1), "q": Fraction(1)})
    assert not replays(genuine, control, {**witness.values, "q": Fraction(100)})


def test_roundtrip_and_damage(tmp_path):
    witness = load("carry-exact")
    path = store(witness, directory=tmp_path)
    assert load("carry-exact", directory=tmp_path) == witness
    assert [file.name for file in tmp_path.iterdir()] == ["carry-exact.json"]
    for damage in ("", path.read_text()[:40], '{"id": "carry-exact"}', "[1]"):
        path.write_text(damage)
        with pytest.raises(RecordingError):
            load("carry-exact", directory=tmp_path)
    with pytest.raises(RecordingError):
        load("no-such-witness", directory=tmp_path)
