"""The kill matrix: every mutant is rejected by its check, nothing else is, and both can fail."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import InputError, UnknownNameError
from dmverify.lab.mutants import MUTANTS, answers, chosen, kill_matrix
from dmverify.lab.mutants.answers import Known, alarms, rejecting
from dmverify.lab.mutants.emulator import EmulatorMutants, Mutation, back_end, run_mutated
from dmverify.lab.mutants.emulator.altered import with_operations
from dmverify.lab.mutants.emulator.mutation import Call
from dmverify.lab.public_rules import PUBLIC_RULES
from dmverify.spec.attention import windows

EMULATOR = EmulatorMutants()
MADE = chosen([], EMULATOR.made)
NOTHING = replace(MUTANTS["zeros"], id="nothing")


@pytest.fixture(scope="module")
def matrix():
    return kill_matrix(MADE, EMULATOR)


def test_every_mutant_is_rejected_by_the_check_that_names_it(matrix):
    assert [row.mutant.id for row in matrix.survivors] == []


def test_what_only_bits_reject_has_a_reason_and_only_that(matrix):
    survive = {row.mutant.id for row in matrix.rows if not row.killed_without_bits}
    assert survive == {mutant.id for mutant in MADE if mutant.hidden}


def test_what_only_bits_reject_is_small_unless_a_nan_is_involved(matrix):
    hidden = [row for row in matrix.rows if not row.killed_without_bits]
    finite = [row for row in hidden if row.mutant.part != "special values"]
    at_ties = [row for row in finite if "-ties-" in row.mutant.id]
    assert all(row.error < 2e-3 for row in finite if row not in at_ties)
    assert all(row.error < 2**-3 for row in at_ties)  # of cases all ties: two casts' own roundings


def test_the_correct_kernel_is_never_rejected(matrix):
    assert not any(matrix.alarms.values())
    assert len(matrix.alarms) == matrix.tried >= 30
    assert matrix.ok


def test_every_check_of_one_answer_names_a_mutant():
    assert {mutant.check for mutant in MADE} == {check.id for check in answers.ONE_ANSWER}


def test_no_public_rule_comes_near(matrix):
    summary = matrix.to_json()["public_rules"]
    assert summary.keys() == PUBLIC_RULES.keys()
    bounded = sum(row.killed_without_bits for row in matrix.rows)
    for rule in summary.values():
        assert rule["kills"] < bounded  # that each can reject is tested with the rules


def test_json_has_the_documented_shape(matrix):
    shape = matrix.to_json()
    assert shape["false_positives"]["alarms"] == 0
    assert shape["false_positives"]["cases"] == len(matrix.alarms)
    for row in shape["faults"]:
        assert row["killed"]
        assert row["by"] in row["rejected_by"]
        assert isinstance(row["killed_without_bits"], bool)
        assert set(row["public_rules"]) == set(PUBLIC_RULES)


def test_a_mutant_that_does_nothing_survives():
    found = kill_matrix([NOTHING], EmulatorMutants({"nothing": Mutation()}))
    assert [row.mutant.id for row in found.survivors] == ["nothing"]
    (row,) = found.rows
    assert not found.ok
    assert not row.killed_without_bits
    assert row.error == 0
    assert not any(row.rules.values())
    assert row.to_json()["by"] is None


def test_a_mutant_that_another_check_rejects_is_not_killed():
    misnamed = replace(MUTANTS["lse-base-2"], check="dq")
    found = kill_matrix([misnamed], EMULATOR)
    assert "lse" in found.rows[0].with_bits
    assert not found.ok


def test_a_false_alarm_is_reported(monkeypatch):
    monkeypatch.setattr(back_end, "alarms", lambda known: ("o",))
    found = kill_matrix([MUTANTS["zeros"]], EMULATOR)
    assert found.rows[0].killed
    assert not found.ok
    assert found.to_json()["false_positives"]["alarms"] == 1


def test_a_check_that_crashes_rejects_nothing_but_is_an_alarm(monkeypatch):
    crash = {
        "o": Finding("o", "case", Verdict.ERROR),
        "dq": Finding("dq", "case", Verdict.FAILS),
    }
    assert rejecting(crash) == ("dq",)
    error = Finding("o", "case", Verdict.ERROR)
    monkeypatch.setattr(answers, "judge", lambda check, evidence: error)
    assert alarms(Known("integers/balanced@0", "bundled"))


def test_more_seeds_look_for_alarms_in_more_cases():
    found = kill_matrix([MUTANTS["zeros"]], EMULATOR, alarm_seeds=3)
    assert [case.rpartition("@")[2] for case, _ in found.alarms] == ["0", "1", "2"]
    with pytest.raises(InputError, match="alarm_seeds=0"):
        kill_matrix([], EMULATOR, alarm_seeds=0)


def test_steps_are_put_back_even_if_one_raises():
    def broken(call):
        raise ZeroDivisionError

    encode, scores = windows.encode, windows.scores
    known = Known(MUTANTS["zeros"].cases[0], "bundled")
    mutation = Mutation({"windows.encode": broken, "windows.scores": lambda call: call.result()})
    with pytest.raises(ZeroDivisionError):
        run_mutated(mutation, known.case)
    assert windows.encode is encode
    assert windows.scores is scores


def test_a_call_knows_its_arguments_by_name_however_they_came():
    def step(x, *, times, plus=1):
        return x * times + plus

    for call in (Call(step, None, (2,), {"times": 3}), Call(step, None, (), {"x": 2, "times": 3})):
        assert call.given == {"x": 2, "times": 3}
        assert (call["x"], call.result(), call.result(plus=0, x=5)) == (2, 7, 15)
    with pytest.raises(UnknownNameError, match="plus"):
        call.result(pluss=0)


def test_an_operation_that_does_not_exist_is_no_mutation():
    mutation = Mutation({"windows.encode": with_operations(kast=lambda base, x: x)})
    with pytest.raises(UnknownNameError, match="cast"):
        run_mutated(mutation, Known(MUTANTS["zeros"].cases[0], "bundled").case)


def test_an_empty_mutation_changes_no_bit():
    known = Known(MUTANTS["gqa-modulo"].cases[0], "bundled")
    outputs = run_mutated(Mutation(), known.case).outputs
    for name, array in outputs.items():
        assert np.array_equal(array.view(np.uint32), getattr(known.bits, name).view(np.uint32))
