"""The plan of the recording, its replay, and whether edits of the specification are noticed."""

import dataclasses
import json
import sqlite3
from collections import Counter

import numpy as np
import pytest

from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate, problem_of
from dmverify.conformance.families.chance import CLASSES, RANDOM, VARIANTS
from dmverify.conformance.journal import JOURNAL, Journal
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError, NothingRanError
from dmverify.kernel.build import HEAD_DIMS
from dmverify.lab.recordings import make
from dmverify.lab.recordings import plan as planned
from dmverify.lab.recordings.collect import collect
from dmverify.lab.recordings.digests import load_digests, save_digests
from dmverify.lab.recordings.edits import Edit, noticed, read_edits, require_text
from dmverify.lab.recordings.plan import CONTRACTS, CORE, PARTS, by_turns, plan, tenth
from dmverify.lab.recordings.replayed import chosen, replay_recorded, unrecorded
from dmverify.spec.case import Inputs
from dmverify.spec.recording import Question, contract_texts, digest_inputs
from tests.commands import lab

SOME = ("lengths/n1,heads=1,kv_heads=1,queries=33,keys=65,head_dim=64@0", "random/tiny@20")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the emulator answers to two cases under all contracts."""
    out = tmp_path_factory.mktemp("recorded")
    asked = [(case, contract) for case in SOME for contract in CONTRACTS]
    make.record(Emulator(), out / "d", asked=asked)
    return out / "d"


@pytest.fixture
def core(monkeypatch):
    """The plan's core is those two cases."""
    monkeypatch.setattr(planned, "CORE", SOME)


def test_every_family_meets_every_mode_and_cast():
    keys = [
        (case, contract)
        for case, contract in plan(("full", "random"))
        if problem_of(case).head_dim in HEAD_DIMS  # what the kernel serves
    ]
    met = {(case.partition("/")[0], contract) for case, contract in keys}
    families = {family for family, _ in met}
    assert met == {(family, contract) for family in families for contract in CONTRACTS}
    assert "random" in families
    assert len(CONTRACTS) == 12


def test_the_parts_are_what_they_say():
    sizes = {part: len(plan([part])) for part in PARTS}
    assert sizes["random"] == 2000
    assert sizes["core"] == 40 * 12
    assert set(plan(["smoke"])) <= set(plan(["full"]))
    assert len(set(plan())) == len(plan())
    assert {problem_of(case).head_dim for case in CORE} == {64, 128, 256}


def test_turns_move_on_so_that_a_variant_meets_other_contracts():
    ids = [f"special/{variant}@{seed}" for seed in range(8) for variant in "abcdefghijkl"]
    contracts = dict(by_turns(ids))
    assert len({contracts[f"special/a@{seed}"] for seed in range(8)}) == 8


def test_ten_runs_take_every_pair_once():
    keys = plan(["random"])
    taken = [key for run in range(7, 17) for key in tenth(keys, run)]
    assert Counter(taken) == Counter(keys)
    assert 150 < len(tenth(keys, 3)) < 250


def test_random_problems_are_as_wide_as_promised():
    ids = [case for case, _ in plan(["random"])]
    problems = [problem_of(case) for case in ids]
    assert len(set(problems)) > 1900
    assert {p.head_dim for p in problems} == {64, 128, 256}
    assert {p.group for p in problems} >= {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}
    assert {np.sign(p.scale) for p in problems} == {-1.0, 0.0, 1.0}
    assert {p.batch for p in problems} == {p.kv_heads for p in problems} == {1, 2, 3}
    assert {p.queries > p.keys for p in problems} == {True, False}
    assert sum(p.queries == p.keys for p in problems) > 400
    assert len(CLASSES) >= 10


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_a_seed_gives_the_same_random_case_and_no_other_family_lists_it(variant):
    one, other = (generate(f"random/{variant}@{seed}") for seed in (3, 4))
    assert digest_inputs(one.inputs) == digest_inputs(generate(one.id).inputs)
    assert digest_inputs(one.inputs) != digest_inputs(other.inputs)
    finite = [np.isfinite(x).all() for _, x in one.inputs.items()]
    assert finite.count(False) == ("nonfinite" in RANDOM.flags_of(variant))


def test_what_was_recorded_is_replayed(folder):
    digests = load_digests(folder / "hashes")
    findings = replay_recorded(digests, digests.cases, processes=2)
    assert [finding.verdict for finding in findings] == [Verdict.CONFORMS] * 24
    assert lab("replay", "--data", folder).exit_code == 0


def test_other_inputs_are_told_apart_from_other_outputs(folder):
    digests = load_digests(folder / "hashes")
    first, second, *_ = digests.cases
    wrong = dataclasses.replace(
        digests,
        inputs=digests.inputs | {first: "00" * 32},
        cases=digests.cases | {second: digests.cases[second] | {"dq": "11" * 16}},
    )
    one, other = replay_recorded(wrong, [first, second])
    assert (one.verdict, other.verdict) == (Verdict.FAILS, Verdict.FAILS)
    assert "other inputs" in one.reason
    assert "the hash of dq differs" in other.reason


def test_a_changed_recording_fails_the_replay(folder, tmp_path):
    digests = load_digests(folder / "hashes")
    key = list(digests.cases)[-1]
    cases = digests.cases | {key: digests.cases[key] | {"lse": "11" * 16}}
    save_digests(dataclasses.replace(digests, cases=cases), tmp_path / "hashes")
    assert lab("replay", "--data", tmp_path).exit_code == 1
    assert lab("replay", "--data", tmp_path, "--first").exit_code == 1


def test_a_part_that_was_not_recorded_is_no_success(folder):
    assert lab("replay", "--data", folder, "--parts", "smoke").exit_code == 1


def test_what_the_plan_asks_and_the_recording_has_not_is_listed(folder, core, monkeypatch):
    monkeypatch.setattr(planned, "_PARTS", {"core": planned._core})
    monkeypatch.setattr(planned.plan, "__defaults__", (("core",),))
    assert unrecorded(folder) == {}
    monkeypatch.setattr(planned, "CORE", (*SOME, "lengths/n2@0"))
    assert set(unrecorded(folder)) == {("lengths/n2@0", contract) for contract in CONTRACTS}


def test_a_run_chooses_among_what_was_recorded(folder, core):
    digests = load_digests(folder / "hashes")
    assert set(chosen(digests, ["core"])) == set(digests.cases)
    assert set(chosen(digests)) == set(digests.cases)
    assert chosen(digests, ["smoke"]) == ()


def test_hashes_of_inputs_know_every_tensor_and_no_strides():
    inputs = generate(SOME[0]).inputs
    tensors = dict(inputs.items())
    spread = {name: np.repeat(x, 2, axis=0)[::2] for name, x in tensors.items()}
    assert digest_inputs(Inputs(**spread)) == digest_inputs(inputs)
    for name, x in tensors.items():
        other = x.copy()
        other.flat[-1] = -other.flat[-1]
        assert digest_inputs(Inputs(**{**tensors, name: other})) != digest_inputs(inputs)


class Interrupted(Emulator):
    """Answers two cases and then dies; counts."""

    def __init__(self):
        self.left = 2
        self.asked = []

    def backward(self, case):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked.append(case.contract)
        return super().backward(case)


def collected(kernel, asked, folder):
    """What a journal has of the cases after a call."""
    questions = [Question(*key, inputs="") for key in asked]
    with Journal(folder, kernel.info, questions, contract_texts(asked)) as journal:
        collect(kernel, asked, journal, processes=1, emit=ignore)
        return journal.hashes, journal.unanswered, journal.inputs


def test_an_interrupted_recording_goes_on_where_it_stopped(tmp_path):
    asked = [(SOME[0], contract) for contract in CONTRACTS[:4]]
    kernel = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        collected(kernel, asked, tmp_path / "one")
    kernel.left = 4
    found = collected(kernel, asked, tmp_path / "one")
    assert sorted(kernel.asked) == sorted(CONTRACTS[:4])
    assert set(found[0]) == set(asked)
    assert found == collected(Emulator(), asked, tmp_path / "other")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("hashes", "{"),
        ("hashes", "[]"),
        ("hashes", "{}"),
        ("hashes", json.dumps({"o": "0" * 31})),
        ("hashes", json.dumps({"verdict": "0" * 32})),
        ("inputs", "0" * 63),
        ("contract_text", "{}"),
    ],
)
def test_a_forged_row_of_hashes_is_asked_again(tmp_path, column, text):
    asked = [(SOME[0], "bundled")]
    due = collected(Emulator(), asked, tmp_path)
    with sqlite3.connect(tmp_path / JOURNAL) as opened:
        opened.execute(f"UPDATE done SET {column} = ?", (text,))
    opened.close()
    assert collected(Emulator(), asked, tmp_path) == due


class Other(Emulator):
    @property
    def info(self):
        return dataclasses.replace(super().info, source="other")


def test_another_kernel_does_not_go_on_with_a_journal(tmp_path):
    asked = [(SOME[0], "bundled")]
    collected(Emulator(), asked, tmp_path / "journal")
    with pytest.raises(InputError, match="continued with the kernel, device"):
        collected(Other(), asked, tmp_path / "journal")


def test_what_is_not_served_is_noted_and_nothing_served_is_an_error(tmp_path):
    asked = [("lengths/n1@0", "bundled"), ("lengths/n1@0", "article")]
    digests = make.record(Emulator(), tmp_path / "d", asked=asked)
    assert list(digests.cases) == asked[:1]
    assert "order open" in digests.unserved[asked[1]]
    with pytest.raises(NothingRanError, match="order open"):
        make.record(Emulator(), tmp_path / "e", asked=asked[1:])
    with pytest.raises(InputError, match="never overwritten"):
        make.record(Emulator(), tmp_path / "d", asked=asked)


def test_what_is_missing_is_added_to_what_there_is(folder, tmp_path):
    old = load_digests(folder / "hashes")
    more = ("lengths/n2@0", "bundled")
    new = make.record_missing(Emulator(), tmp_path / "d", onto=old, asked=[more])
    assert new == load_digests(tmp_path / "d" / "hashes")
    assert list(new.cases) == [*old.cases, more]
    assert new.inputs.keys() == new.cases.keys()
    with pytest.raises(InputError, match="continued with the kernel source"):
        make.record_missing(Other(), tmp_path / "e", onto=old, asked=[more])


EDIT = Edit(
    "a window's maximum is 2^7",
    "attention/windows.py",
    'P_MAX_EXPONENT = float(constant("P_MAX_EXPONENT"))',
    "P_MAX_EXPONENT = 7.0",
)


def test_an_edit_of_the_specification_is_noticed(folder, tmp_path):
    """The copy is replayed whole: its plan knows nothing of these two cases."""
    assert "the hash of" in noticed(EDIT, data=folder, parts=())


def test_an_edit_that_changes_nothing_is_not_noticed(folder):
    same = dataclasses.replace(EDIT, new="P_MAX_EXPONENT = 8.00")
    assert noticed(same, data=folder, parts=()) == ""


@pytest.mark.parametrize("old", ["nowhere in the file", "a", "P_MAX_EXPONENT = 7.0"])
def test_an_edit_must_replace_one_text(folder, old):
    with pytest.raises(InputError, match="stands there"):
        noticed(dataclasses.replace(EDIT, old=old), data=folder, parts=())


def test_the_shipped_edits_fit_the_specification():
    """At least 50 that must be noticed: 'dmverify lab edits'."""
    edits = read_edits()
    assert sum(not edit.equivalent for edit in edits) >= 50
    assert len({edit.name for edit in edits}) == len(edits)
    for edit in edits:
        assert edit.new in require_text(edit)


def test_an_edit_that_is_due_to_be_silent_must_be(folder, tmp_path):
    loud = dataclasses.replace(EDIT, equivalent="it is not")
    path = tmp_path / "edits.json"
    path.write_text(json.dumps([dataclasses.asdict(loud)]))
    said = lab("edits", path, "--data", folder, "--parts", "")
    assert said.exit_code == 1
    assert "NOT AS DUE" in said.stdout


def test_edits_are_read_from_a_list(tmp_path):
    path = tmp_path / "edits.json"
    path.write_text(json.dumps([dataclasses.asdict(EDIT)]))
    assert read_edits(path) == (EDIT,)
    path.write_text('[{"name": "x"}]')
    with pytest.raises(InputError, match="JSON list"):
        read_edits(path)
