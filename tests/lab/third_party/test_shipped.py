"""The peers' recorded answers: judged again as reported, and a planted one is rejected."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmverify.conformance.load import load
from dmverify.lab.recordings import DATA
from dmverify.lab.third_party.checking import _strict, report
from dmverify.lab.third_party.delta import read_delta
from dmverify.lab.third_party.findings import findings, loses_last_row
from dmverify.lab.third_party.judging import judge_all, judge_one
from dmverify.lab.third_party.kernels import PEERS
from dmverify.lab.third_party.page import page
from dmverify.spec.recording import Key, Recording

FOLDER = DATA / "peers"
MOST = 9_000_000  # bytes of the repository


def reported(name: str) -> dict[str, Any]:
    text: dict[str, Any] = json.loads((FOLDER / f"{name}.report.json").read_text())
    return text


@pytest.mark.parametrize("name", PEERS)
def test_answers_are_judged_as_reported(name: str) -> None:
    then = {one["case_id"]: one for one in reported(name)["judged"]}
    now = [json.loads(_strict(one.to_json())) for one in judge_all(load(FOLDER / name))]
    judged = [one for one in now if one["margins"]]
    assert len(judged) >= 5
    for one in now:
        was = then[one["case_id"]]
        assert one["verdict"] == was["verdict"]
        assert one["notes"].get("outside") == was["notes"].get("outside")
        for output, margin in one["margins"].items():
            assert float(margin["margin"]) == pytest.approx(
                float(was["margins"][output]["margin"]), rel=1e-6, abs=1e-9
            )


def planted(name: str, output: str, at: tuple[int, ...], change: int) -> tuple[Recording, Key]:
    """One element of one recorded tensor moved by some units in BF16's last place."""
    recording = load(FOLDER / name)
    key = next(key for key in recording.answers if key[0].startswith("offset/v-16,"))
    answer = recording.answers[key]
    wrong = getattr(answer, output).copy()
    wrong.view(np.uint32)[at] += np.uint32(change << 16)
    return replace(recording, answers={key: replace(answer, **{output: wrong})}), key


@pytest.mark.parametrize(
    ("name", "output", "change"),
    [
        ("torch-flash", "dk", 40),
        ("torch-cudnn", "dv", 40),
        ("torch-math", "dq", 40),
        ("flash-3", "o", 3),
        ("flash-3-fp8", "o", 60),
        ("cudnn-fp8", "o", 48),  # three codes of E4M3
    ],
)
def test_a_planted_answer_is_rejected(name: str, output: str, change: int) -> None:
    at = (0, 64, 0, 5)
    assert judge_one(*planted(name, output, at, 0)).verdict == "conforms"
    found = judge_one(*planted(name, output, at, change))
    assert found.verdict == "fails"
    assert found.findings[output].worst.index == at


def test_the_delta_of_cudnns_fp8_backward_is_read_from_its_answers() -> None:
    """At offset 4 of V: the row sums are those of <dO, O> with the stored E4M3 O."""
    (row,) = read_delta(load(FOLDER / "cudnn-fp8"), contract="cudnn-fp8", head_dim=128)
    slope = row["scans"][0]["coefficients"]["shortcut"]
    assert (row["verdict"], row["mode"]) == ("consistent", "consistent")
    assert 0.95 < slope["low"] < slope["value"] < slope["high"] < 1.05
    assert row["dk_error"]["4"] > 0.1
    was = next(one for one in reported("cudnn-fp8")["delta"] if one["spread"] == row["spread"])
    assert row["dk_error"]["4"] == pytest.approx(was["dk_error"]["4"], rel=1e-6)


def test_the_page_is_made_from_the_reports() -> None:
    names = sorted(path.name.removesuffix(".report.json") for path in FOLDER.glob("*.report.json"))
    texts = {name: reported(name) for name in names}
    assert set(PEERS) <= set(texts)
    ordered = {name: texts[name] for name in (*PEERS, *(set(texts) - set(PEERS)))}
    assert page(ordered) == (FOLDER / "README.md").read_text()
    full = {name: text for name, text in ordered.items() if "judged" in text}
    assert sum(loses_last_row(one) for one in full["cudnn-fp8"]["judged"]) >= 4
    honest = {name: full[name] for name in ("torch-math",)}
    assert not list(findings(honest))


def test_the_folder_stays_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < MOST


def test_a_report_of_shortened_answers_has_no_other_verdicts() -> None:
    text = report(load(FOLDER / "flash-3"))
    then = {one["case_id"]: one["verdict"] for one in reported("flash-3")["judged"]}
    assert all(then[one["case_id"]] == one["verdict"] for one in text["judged"])
