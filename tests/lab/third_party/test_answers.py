"""Stored answers: kept once, refused when changed, judged the same after they were shortened."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from dmverify.errors import RecordingError
from dmverify.lab.third_party.answers import Answers, Entry, load, widened
from dmverify.lab.third_party.checking import check_all, report, shortened
from dmverify.lab.third_party.judging import judge_all, judge_one
from dmverify.lab.third_party.kernels.collect import _differences, bits, collect
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math
from dmverify.lab.third_party.questions import questions


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Path]:
    """torch's composite operator, asked what needs no GPU."""
    folder = tmp_path_factory.mktemp("answers")
    collect(torch_math(), 64, folder, stages=("questions",))
    return load(folder, "torch-math"), folder


def test_a_round_trip_keeps_every_number(answers: tuple[Answers, Path]) -> None:
    book, _ = answers
    assert [e.case_id for e in book.entries] == [q.case_id for q in questions(64)]
    entry = book.entries[0]
    assert book.blobs[entry.tensors["o"]].dtype == np.uint16
    assert book.output(entry, "o").dtype == np.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float32])
def test_bits_widen_to_the_same_numbers(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -448.0, 0.001953125, torch.nan]).to(dtype)
    np.testing.assert_array_equal(widened(bits(x)), x.float().numpy())


def test_the_operator_conforms_where_it_promises_to(answers: tuple[Answers, Path]) -> None:
    book, _ = answers
    verdicts = {one.case_id: one for one in judge_all(book)}
    words = {one.verdict for one in verdicts.values()}
    assert words == {"conforms", "described", "refused"}
    top_left = [one for one in verdicts.values() if "mask" in one.notes]
    assert len(top_left) == 4
    assert all(one.notes["mask"]["top left"] < 0.01 for one in top_left)
    assert all(one.notes["mask"]["bottom right"] > 0.1 for one in top_left)


def test_a_changed_answer_does_not_conform(answers: tuple[Answers, Path]) -> None:
    book, _ = answers
    entry = book.entries[1]
    o = book.blobs[entry.tensors["o"]].copy()
    o[0, 7, 0, 3] += np.uint16(3)  # three units in the last place of one element
    changed = Answers(**{**vars(book), "blobs": dict(book.blobs)})
    name = changed.keep(o)
    wrong = Entry(**{**vars(entry), "tensors": {**entry.tensors, "o": name}})
    found = judge_one(changed, wrong)
    assert found.verdict == "fails"
    assert found.findings["o"].worst.index == (0, 7, 0, 3)


def test_a_nan_that_is_swallowed_shows(answers: tuple[Answers, Path]) -> None:
    book, _ = answers
    one = next(x for x in judge_all(book) if x.case_id.startswith("special/q-nan"))
    assert one.notes["o"] == {
        "rows that can see it": 1,
        "of them NaN": 1,
        "others NaN": 0,
        "rows with infinity": 0,
    }


def test_changed_files_are_refused(answers: tuple[Answers, Path], tmp_path: Path) -> None:
    book, _ = answers
    book.save(tmp_path)
    tensors = tmp_path / "torch-math.safetensors"
    blobs = load_file(tensors)
    name = next(iter(blobs))
    save_file({**blobs, name: blobs[name] + 1}, tensors)
    with pytest.raises(RecordingError, match="named by its hash"):
        load(tmp_path, "torch-math")
    save_file({n: x for n, x in blobs.items() if n != name}, tensors)
    with pytest.raises(RecordingError, match="lists exactly"):
        load(tmp_path, "torch-math")
    tensors.write_bytes(tensors.read_bytes()[:1000])
    with pytest.raises(RecordingError, match="complete safetensors"):
        load(tmp_path, "torch-math")
    (tmp_path / "torch-math.json").write_text("{")
    with pytest.raises(RecordingError, match="JSON"):
        load(tmp_path, "torch-math")


def test_shortened_answers_are_judged_alike(
    answers: tuple[Answers, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book, _ = answers
    whole = {one.case_id: one for one in judge_all(book)}
    shortened(book).save(tmp_path)
    rest = list(judge_all(load(tmp_path, "torch-math")))
    assert 8 < len(rest) < len(whole)
    assert all(one == whole[one.case_id] for one in rest)
    assert check_all(tmp_path, tmp_path / "reports") == 0
    assert json.loads(capsys.readouterr().out)["peer"] == "torch-math"
    text = (tmp_path / "reports" / "README.md").read_text()
    assert "| torch-math | bf16-math |" in text
    assert "top left" in text


def test_an_empty_folder_says_that_nothing_was_judged(tmp_path: Path) -> None:
    assert check_all(tmp_path, None) == 5


def test_repeats_tell_what_differs() -> None:
    first = {"o": torch.zeros(2, 3), "lse": torch.ones(2)}
    other = {"o": torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, -0.0]]), "lse": torch.ones(2)}
    rows = list(_differences(first, [first, other]))
    assert rows[0]["runs_that_differ"] == 1
    assert rows[0]["most_elements"] == 2  # the other zero counts: it has other bits
    assert rows[0]["largest_difference"] == 0.5
    assert rows[1]["runs_that_differ"] == 0


def test_an_exception_of_a_library_is_an_answer() -> None:
    made_by = {"versions": "", "device": ""}
    book = Answers("torch-math", "bf16-math", made_by, head_dim=64)
    sizes = "batch=1,heads={},kv_heads=1,queries=8,keys=8,head_dim=64"
    told = ("RuntimeError: no kernel", "RuntimeError: this is not supported")
    for error in told:
        case_id = f"gaussian/spread-1,{sizes.format(1)}@0"
        book.entries.append(Entry("judged", case_id, error=error))
    grouped = f"gaussian/spread-1,{sizes.format(2)}@0"  # outside of the peer's limits
    book.entries.append(Entry("judged", grouped, error=told[0]))
    found = report(book)
    assert [one["verdict"] for one in found["judged"]] == ["error", "refused", "refused"]
    assert [one["reason"] for one in found["judged"]] == [*told, told[0]]
