"""Peers are asked like any kernel, judged by the suite's checks, and alike when shortened."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmverify.conformance.events import CheckDone, Event
from dmverify.conformance.families import generate
from dmverify.conformance.load import load
from dmverify.conformance.verdict import Verdict
from dmverify.lab.third_party import asking, repeats
from dmverify.lab.third_party.asking import Insisting, ask_all
from dmverify.lab.third_party.checking import check_all, report, shortened
from dmverify.lab.third_party.judging import judge_all, judge_one
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math
from dmverify.lab.third_party.questions import keys_of, questions
from dmverify.lab.third_party.repeats import differences
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Recording, Unanswered

ASKED = tuple(key for key in keys_of("torch-math") if not key[0].startswith("tomography"))
PATIENT = 86400.0  # seconds: nothing here hangs, so the clock decides nothing
HERE = "tests.lab.third_party.test_answers"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """torch's composite operator, asked what needs no GPU, in a process of its own."""
    out = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        target = "dmverify.lab.third_party.kernels.torch_sdpa:torch_math"
        patch.setattr(asking, "ASKED", {"torch-math": target})
        patch.setattr(asking, "keys_of", lambda _: ASKED)
        patch.setattr(repeats, "repeated_of", lambda _: [ASKED[8][0], ASKED[3][0]])
        patch.setattr(repeats, "RUNS", 2)
        said: list[str] = []
        assert ask_all(["torch-math"], out, seconds=PATIENT, say=said.append)
        assert said == ["torch-math: asked"]
    return out


@pytest.fixture(scope="module")
def recording(folder: Path) -> Recording:
    return load(folder / "torch-math")


def test_every_question_is_asked_by_its_id(recording: Recording) -> None:
    assert [q.case_id for q in recording.asked] == [q.case_id for q in questions(64)]
    (declined,) = recording.unanswered.values()  # grouped heads, which it is asked all the same
    assert declined.why == "error"
    assert "size of tensor" in declined.reason


def test_the_operator_conforms_where_it_promises_to(recording: Recording) -> None:
    verdicts = {one.case_id: one for one in judge_all(recording)}
    words = {one.verdict for one in verdicts.values()}
    assert words == {"conforms", "described", "refused"}
    top_left = [one for one in verdicts.values() if "mask" in one.notes]
    assert len(top_left) == 4
    assert all(one.notes["mask"]["top left"] < 0.01 for one in top_left)
    assert all(one.notes["mask"]["bottom right"] > 0.1 for one in top_left)


def test_a_changed_answer_does_not_conform(recording: Recording) -> None:
    key = ASKED[1]
    o = recording.answers[key].o.copy()
    o.view(np.uint32)[0, 7, 0, 3] += np.uint32(3 << 16)  # three units in BF16's last place
    wrong = replace(recording.answers[key], o=o)
    changed = replace(recording, asked=recording.asked[1:2], answers={key: wrong})
    heard: list[Event] = []
    (found,) = judge_all(changed, heard.append)
    assert found.verdict == "fails"
    assert found.findings["o"].worst.index == (0, 7, 0, 3)
    said = [event.finding for event in heard if isinstance(event, CheckDone)]
    assert [one.check for one in said if one.verdict is Verdict.FAILS] == ["o"]


def test_a_nan_that_is_swallowed_shows(recording: Recording) -> None:
    one = next(x for x in judge_all(recording) if x.case_id.startswith("special/q-nan"))
    assert one.notes["o"] == {
        "rows that can see it": 1,
        "of them NaN": 1,
        "others NaN": 0,
        "rows with infinity": 0,
    }


def test_shortened_answers_are_judged_alike(
    recording: Recording, folder: Path, tmp_path: Path
) -> None:
    whole = {one.case_id: one for one in judge_all(recording)}
    short = shortened(recording, "torch-math")
    rest = judge_all(short)
    assert 8 < len(rest) < len(whole)
    assert all(one == whole[one.case_id] for one in rest)
    assert len(short.answers) + len(short.hashes) == len(recording.answers)
    said: list[str] = []
    assert check_all(folder, tmp_path / "reports", say=said.append) == 0
    assert json.loads(said[0])["peer"] == "torch-math"
    text = (tmp_path / "reports" / "README.md").read_text()
    assert "| torch-math | bf16-math |" in text
    assert "top left" in text
    shipped = load(tmp_path / "reports" / "torch-math")
    assert shipped.hashes == short.hashes
    assert check_all(tmp_path / "reports", None, say=said.append) == 0


def test_an_empty_folder_says_that_nothing_was_judged(tmp_path: Path) -> None:
    assert check_all(tmp_path, None, say=lambda _: None) == 5


def test_repeats_tell_what_differs(folder: Path) -> None:
    rows = json.loads((folder / "torch-math.repeats.json").read_text())["repeats"]
    assert {row["varied"] for row in rows} == {"run", "stream", "batch"}
    assert not any(row.get("runs_that_differ", 1) for row in rows if row["varied"] == "run")
    first = Outputs(np.zeros((2, 3), np.float32), np.ones(2, np.float32))
    moved = np.array([[0.0, 0.5, 0.0], [0.0, 0.0, -0.0]], np.float32)
    o, lse, *_ = differences(first, [first, replace(first, o=moved)])
    assert o["runs_that_differ"] == 1
    assert o["most_elements"] == 2  # the other zero counts: it has other bits
    assert o["largest_difference"] == 0.5
    assert lse["runs_that_differ"] == 0


def gone() -> Dies:
    return Dies()


class Dies:
    """A peer whose process ends at once."""

    contract = "bf16-math"
    info = torch_math().info

    def supports(self, case: Case) -> None:
        raise SystemExit(1)

    forward = backward = supports


def test_a_peer_that_ends_its_process_spares_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = "dmverify.lab.third_party.kernels.torch_sdpa:torch_math"
    targets = {"torch-math": right, "torch-flash": f"{HERE}:gone"}
    monkeypatch.setattr(asking, "ASKED", targets)
    monkeypatch.setattr(asking, "keys_of", lambda _: ASKED[:1])
    monkeypatch.setattr(asking, "repeats", lambda *_: iter(()))
    assert not ask_all(list(targets), tmp_path, seconds=PATIENT, say=lambda _: None)
    assert len(load(tmp_path / "torch-math").answers) == 1
    assert not (tmp_path / "torch-flash" / "footer.json").exists()


def test_what_a_peer_declines_is_asked() -> None:
    unequal = next(case_id for case_id, _ in ASKED if "queries=64,keys=192" in case_id)
    case = generate(unequal, contract="bf16-math")
    assert torch_math().supports(case).reason
    assert Insisting(torch_math()).backward(case).o.shape == case.inputs.q.shape


def test_an_exception_of_a_library_is_an_answer(recording: Recording) -> None:
    told = ("backward raised RuntimeError: no kernel", "backward raised: this is not supported")
    ordinary = [key for key in ASKED if key[0].startswith("gaussian/spread-1,")][:1]
    grouped = [key for key in ASKED if "kv_heads=2" in key[0]][:1]  # outside of its limits
    for key, why, verdict in (
        (ordinary[0], told[0], "error"),
        (ordinary[0], told[1], "refused"),
        (grouped[0], told[0], "refused"),
    ):
        asked = tuple(q for q in recording.asked if q.key == key)
        one = replace(
            recording, asked=asked, answers={}, unanswered={key: Unanswered("error", why)}
        )
        (found,) = report(one)["judged"]
        assert (found["verdict"], found["reason"]) == (verdict, why)
        assert judge_one(one, key).verdict == verdict
