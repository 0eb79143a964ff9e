"""The checker rejects what it must: wrong, vacuous, slack, blind and misencoded lemmas."""

import dataclasses
import json
from fractions import Fraction

import pytest
import z3
from click.testing import CliRunner

from dmverify.cli.prove import command
from dmverify.errors import InputError
from dmverify.proofs import (
    Goal,
    Lemma,
    Outcome,
    Sweep,
    all_lemmas,
    get_lemma,
    prove,
    registry,
    run_lemma,
    runner,
)
from dmverify.proofs.solve import refutation, subterms
from dmverify.proofs.table import table

F = Fraction
PATIENT = 86400.0  # seconds: what a solver can answer it answers, however slow the machine is


def doubling(c, *, hypotheses=(), replay=True, shift=0):
    """The claim x + x <= c x for 1 <= x <= 2; true from c = 2 on."""
    x = z3.Real("x")

    def concrete(v):
        value = F(v["x"]) + shift
        return Outcome(1 <= value <= 2, 2 * value <= c * value)

    claim = 2 * x <= z3.RealVal(str(c)) * x
    return [Goal("claim", (x >= 1, x <= 2, *hypotheses), claim, concrete if replay else None)]


LESS = F(3, 2)


def lemma_of(build, *, constant=2, control=LESS, sweep=None):
    return Lemma(
        "toy",
        "x + x <= c x",
        "toy",
        ("tests:toy",),
        F(constant),
        F(control),
        "factor",
        build,
        sweep,
        PATIENT,
    )


def test_a_true_lemma_with_a_tight_constant_passes():
    result = run_lemma(lemma_of(doubling))
    assert (result.verdict, result.control, result.ok) == ("proved", "refuted", True)
    assert result.solvers == ("z3", "cvc5")


def test_a_wrong_constant_is_refuted():
    result = run_lemma(lemma_of(doubling, constant=F(7, 4), control=1))
    assert result.verdict == "refuted"
    assert not result.ok
    assert "claim" in result.detail


def test_a_control_that_is_true_is_reported():
    result = run_lemma(lemma_of(doubling, constant=4, control=2))
    assert (result.verdict, result.control, result.ok) == ("proved", "holds", False)


def test_a_vacuous_lemma_is_reported():
    nothing = z3.Real("x") > 3
    result = run_lemma(lemma_of(lambda c: doubling(c, hypotheses=(nothing,))))
    assert result.verdict == "vacuous"
    assert not result.ok


def test_no_goals_is_vacuous():
    assert run_lemma(lemma_of(lambda c: [])).verdict == "vacuous"


def test_a_control_without_replay_does_not_count():
    result = run_lemma(lemma_of(lambda c: doubling(c, replay=False)))
    assert (result.control, result.ok) == ("holds", False)


def test_an_encoding_that_disagrees_with_its_replay_is_reported():
    result = run_lemma(lemma_of(lambda c: doubling(c, shift=10)))
    assert (result.control, result.ok) == ("replay failed", False)


def test_an_irrational_model_is_not_accepted():
    def root(c):
        x = z3.Real("x")

        def concrete(v):
            return Outcome(F(v["x"]) ** 2 == 2, F(v["x"]) <= c)

        return [Goal("root", (x * x == 2, x > 0), x <= z3.RealVal(str(c)), concrete)]

    result = run_lemma(lemma_of(root, constant=F(3, 2), control=1))
    assert (result.verdict, result.control) == ("proved", "replay failed")


def test_a_sweep_that_fails_refutes():
    result = run_lemma(lemma_of(doubling, sweep=lambda c: Sweep(10, 1)))
    assert result.verdict == "refuted"
    result = run_lemma(lemma_of(doubling, sweep=lambda c: Sweep(0, 0)))
    assert result.verdict == "refuted"


def test_a_sweep_that_accepts_the_control_is_blind():
    result = run_lemma(lemma_of(doubling, sweep=lambda c: Sweep(10, 0)))
    assert (result.verdict, result.control, result.ok) == ("proved", "sweep blind", False)


@pytest.mark.parametrize(("answer", "verdict"), [("unknown", "unconfirmed"), ("sat", "refuted")])
def test_a_second_solver_that_does_not_confirm(monkeypatch, answer, verdict):
    monkeypatch.setitem(registry_second(), "cvc5", lambda text, *, timeout: answer)
    result = run_lemma(lemma_of(doubling))
    assert (result.verdict, result.ok) == (verdict, False)
    assert f"cvc5 answers {answer}" in result.detail


def registry_second():
    from dmverify.proofs import solve

    return solve.SECOND


def test_second_solvers_see_text_and_can_refute():
    from dmverify.proofs.solve import bitwuzla_check, cvc5_check, smtlib

    x, b = z3.Real("x"), z3.BitVec("b", 8)
    for check, satisfiable in ((cvc5_check, x > 1), (bitwuzla_check, z3.UGT(b, 3))):
        assert check(smtlib([satisfiable]), timeout=PATIENT) == "sat"
        assert check(smtlib([satisfiable, z3.Not(satisfiable)]), timeout=PATIENT) == "unsat"


def test_a_timeout_is_unknown():
    bits = z3.BitVecs("a b", 64)
    hard = [bits[0] * bits[1] == 0x7FFFFFFFFFFFFFE7, z3.UGT(bits[0], 1), z3.UGT(bits[1], 1)]
    hard += [z3.ULT(bit, 1 << 40) for bit in bits]

    def build(c):
        return [Goal("factor", tuple(hard), z3.BoolVal(False))]

    assert run_lemma(lemma_of(build), timeout=0.01).verdict == "unknown"


def test_the_table_says_what_is_wrong():
    text = table([run_lemma(lemma_of(doubling, constant=F(7, 4), control=1))])
    assert "refuted" in text
    assert "  ! goal claim" in text
    assert text.endswith("0 of 1 proved by two means with their controls refuted")


GOOD = lemma_of(doubling)


@pytest.mark.parametrize(
    "change",
    [
        {"control": F(2)},
        {"control": F(9, 10)},
        {"control": F(0)},
        {"kind": "format", "control": F(4)},
        {"kind": "other"},
        {"used_by": ()},
        {"used_by": ("bound: O",)},
    ],
)
def test_entries_that_mean_nothing_are_refused(change):
    registry.validate(GOOD)
    with pytest.raises(InputError):
        registry.validate(dataclasses.replace(GOOD, **change))


def test_ids_are_unique():
    uses = ("tests:toy",)
    with pytest.raises(InputError):
        registry.lemma("rn-error", "again", topic="toy", used_by=uses, constant=2, control=1)(
            doubling
        )
    assert prove(["rn-error"])[0].ok


@pytest.mark.parametrize(
    ("constant", "control", "verdict", "refuted"),
    [(2, LESS, "proved", "refuted"), (F(7, 4), 1, "refuted", "refuted"), (4, 2, "proved", "holds")],
)
def test_the_command_fails_on_a_planted_lemma(monkeypatch, constant, control, verdict, refuted):
    """True and tight, false, and true but with a control that holds as well."""
    planted = dataclasses.replace(lemma_of(doubling, constant=constant, control=control), id="toy")
    monkeypatch.setattr(registry, "_LEMMAS", {"rn-error": get_lemma("rn-error"), "toy": planted})
    monkeypatch.setattr(runner, "_CERTIFICATES", {})
    done = CliRunner().invoke(command, ["--json"])
    lemmas = {row["id"]: row for row in json.loads(done.stdout)["lemmas"]}
    assert (lemmas["rn-error"]["verdict"], lemmas["rn-error"]["control"]) == ("proved", "refuted")
    assert lemmas["toy"]["verdict"] == verdict
    assert lemmas["toy"]["control"] in (refuted, "replay failed")
    assert done.exit_code == (0 if (verdict, refuted) == ("proved", "refuted") else 1)


def assumed(entry):
    """Goals whose conclusion is one of their hypotheses, or true without them for no reason."""
    return [
        goal.name
        for goal in entry.build(entry.constant)
        if any(goal.conclusion.eq(z3.simplify(h)) or goal.conclusion.eq(h) for h in goal.hypotheses)
        or z3.is_true(goal.conclusion)
    ]


@pytest.mark.parametrize("entry", all_lemmas(), ids=lambda entry: entry.id)
def test_no_goal_assumes_what_it_concludes(entry):
    assert assumed(entry) == []


def test_an_assumed_conclusion_is_found():
    claim = 2 * z3.Real("x") <= 2 * z3.Real("x")
    planted = lemma_of(lambda c: [Goal("claim", (z3.Real("x") >= 1, claim), claim)])
    assert assumed(planted) == ["claim"]


def shaky(goals):
    """What solvers disagree on: fp.rem, fp.fma, and IEEE sorts other than float32."""
    kinds = {z3.Z3_OP_FPA_REM, z3.Z3_OP_FPA_FMA}
    terms = [term for goal in goals for term in subterms(refutation(goal))]
    return [
        str(term.decl())
        for term in terms
        if (z3.is_app(term) and term.decl().kind() in kinds)
        or (z3.is_fp(term) and (term.sort().ebits(), term.sort().sbits()) != (8, 24))
    ]


@pytest.mark.parametrize("entry", all_lemmas(), ids=lambda entry: entry.id)
def test_no_goal_rests_on_what_solvers_disagree_on(entry):
    assert shaky(entry.build(entry.constant)) == []


@pytest.mark.parametrize("sort", [z3.Float32(), z3.FPSort(4, 4)])
def test_shaky_terms_are_found(sort):
    x, y = z3.FP("x", sort), z3.FP("y", sort)
    planted = [Goal("claim", (), z3.fpGEQ(z3.fpFMA(z3.RNE(), x, y, x), z3.fpRem(x, y)))]
    assert shaky(planted) != []
    plain = [Goal("claim", (), z3.fpGEQ(x, y))]
    assert (shaky(plain) == []) == (sort == z3.Float32())


def test_a_step_that_the_control_does_not_refute_is_reported():
    """A second goal with the constant that holds under the control as well: the lemma is loose."""
    x, y = z3.Reals("x y")

    def build(c):
        claim = y * z3.RealVal(str(c)) >= x
        return [*doubling(c), Goal("step", (x >= 1, y >= 2 * x), claim)]

    assert run_lemma(lemma_of(build)).control == "holds"
    named = dataclasses.replace(lemma_of(build), loose=("step",))
    assert run_lemma(named).control == "refuted"


def test_a_second_constant_that_could_be_tightened_is_reported():
    x = z3.Real("x")
    holds, fails = (Goal("other", (x >= 1,), x >= k) for k in (1, 2))
    assert run_lemma(dataclasses.replace(lemma_of(doubling), tightened=lambda: [fails])).ok
    result = run_lemma(dataclasses.replace(lemma_of(doubling), tightened=lambda: [holds]))
    assert (result.control, result.ok) == ("holds", False)


def test_every_goal_called_loose_contains_its_lemmas_constant():
    for entry in all_lemmas():
        genuine = {goal.name: goal for goal in entry.build(entry.constant)}
        control = {goal.name: goal for goal in entry.build(entry.control)}
        for name in entry.loose:
            assert refutation(genuine[name]) != refutation(control[name]), (entry.id, name)
