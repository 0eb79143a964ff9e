"""Judges a folder of recordings and writes the reports that ship with the project.

| file | holds |
|---|---|
| PEER.report.json | every judgement, the repeats, the tomography |
| PEER/ | the recording: answers of ``KEPT`` whole, hashes of the rest |
| README.md | one page for people |
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmverify.conformance.families.tomography.designs import FAMILY as TOMOGRAPHY
from dmverify.conformance.load import load
from dmverify.conformance.store import FOOTER, save
from dmverify.lab.third_party.delta import READ, read_delta
from dmverify.lab.third_party.judging import judge_all
from dmverify.lab.third_party.page import page
from dmverify.lab.third_party.questions import head_dim_of, questions
from dmverify.lab.third_party.repeats import REPEATS
from dmverify.spec.case import Outputs
from dmverify.spec.recording import Key, Recording, short_hash

REPORT = ".report.json"  # how the names of reports end
KEPT = (
    "gaussian/spread-64,",
    "offset/v-16,",
    "logit-size/negative-scale,batch=1,heads=1,kv_heads=1,queries",
)
"""Beginnings of the ids whose answers ship."""
LENGTHS = ("queries=17,keys=17", "queries=65,keys=65", "queries=64,keys=192", "queries=129,keys=17")
"""Ends of those that ship, and the groups of three query heads."""
GROUPED = "heads=3,kv_heads=1"
KEPT_SIZES = 34
"""Up to so many queries, sizes ship of the peer whose dQ depends on them."""
KEPT_SCAN = "-spread-2-offset-4,"
SCANNED = "cudnn-fp8"


def check_all(folder: Path, reports: Path | None, *, say: Callable[[str], None]) -> int:
    """Judges every peer of a folder; 0 if all conform, 1 if one does not, 5 if there is none.

    Args:
        folder: What ``asking`` or an earlier call has left.
        reports: Where reports go; None writes none.
        say: Called with a line of JSON a peer.
    """
    recordings = {
        path.parent.name: load(path.parent) for path in sorted(folder.glob(f"*/{FOOTER}"))
    }
    repeated = _repeated(folder)
    texts = {name: report(one, repeated.get(name)) for name, one in recordings.items()}
    texts |= {name: text for name, text in repeated.items() if name not in recordings}
    for text in texts.values():
        say(json.dumps({"peer": text["peer"], **text.get("summary", {})}))
    if reports is not None:
        _write(reports, texts, recordings)
    if not texts:
        return 5
    wrong = [t for t in texts.values() if t.get("summary", {}).get("verdicts", {}).get("fails")]
    return 1 if wrong else 0


def _repeated(folder: Path) -> dict[str, dict[str, Any]]:
    """What made the repeats and their rows, by peer."""
    found = {}
    for path in sorted(folder.glob(f"*{REPEATS}")):
        text = json.loads(path.read_text())
        about = {"peer": text["peer"], "made_by": made_by(text["producer"])}
        found[text["peer"]] = {**about, "repeats": text["repeats"]}
    return found


def _write(
    reports: Path, texts: Mapping[str, dict[str, Any]], recordings: Mapping[str, Recording]
) -> None:
    reports.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (reports / f"{name}{REPORT}").write_text(_strict(text))
    for name, recording in recordings.items():
        save(shortened(recording, name), reports / name)
    (reports / "README.md").write_text(page(texts))


def _strict(text: dict[str, Any]) -> str:
    """JSON that any reader takes: infinities and NaN as words."""
    return json.dumps(_worded(text), allow_nan=False) + "\n"


def _worded(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _worded(item) for name, item in x.items()}
    if isinstance(x, list | tuple):
        return [_worded(item) for item in x]
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def report(recording: Recording, repeated: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Everything about one peer.

    Args:
        recording: Its answers.
        repeated: What repeated calls said, if they were made.
    """
    name, contract = recording.producer.kernel, next(iter(recording.contracts))
    judged = [one.to_json() for one in judge_all(recording)]
    head_dim = head_dim_of(name)
    return {
        "peer": name,
        "contract": contract,
        "made_by": made_by(vars(recording.producer)),
        "head_dim": head_dim,
        "summary": {
            "verdicts": dict(Counter(one["verdict"] for one in judged)),
            "worst margin": _worst(judged),
        },
        "judged": judged,
        "delta": read_delta(recording, contract=contract, head_dim=head_dim),
        "repeats": [] if repeated is None else repeated["repeats"],
    }


def made_by(producer: Mapping[str, Any]) -> dict[str, str]:
    """Versions and device, as the reports say them."""
    return {"versions": producer["compiler"], "device": producer["device"]}


def _worst(judged: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest margin of each output and where it was."""
    found: dict[str, Any] = {}
    for one in judged:
        for name, margin in one["margins"].items():
            if name not in found or margin["margin"] > found[name]["margin"]:
                found[name] = {"margin": margin["margin"], "case": one["case_id"]}
    return found


def shortened(recording: Recording, peer: str) -> Recording:
    """The recording with the numbers that ship, and hashes of the others."""
    stages = {one.case_id: one.stage for one in questions(head_dim_of(peer))}
    ships = {key for key in recording.answers if _ships(peer, key, stages.get(key[0], ""))}
    hashes = {
        key: {name: short_hash(x) for name, x in answer.items()}
        for key, answer in recording.answers.items()
        if key not in ships
    }
    kept = {key: _read(key, recording.answers[key]) for key in recording.answers if key in ships}
    return replace(recording, answers=kept, hashes={**recording.hashes, **hashes})


def _read(key: Key, answer: Outputs) -> Outputs:
    """What is read of an answer: of a scan's, two outputs."""
    if not key[0].startswith(TOMOGRAPHY):
        return answer
    return Outputs(**{name: getattr(answer, name) for name in READ})


def _ships(peer: str, key: Key, stage: str) -> bool:
    name = key[0].partition("@")[0]
    if name.startswith(TOMOGRAPHY):
        return peer == SCANNED and KEPT_SCAN in name
    if stage == "lengths":
        return name.endswith(LENGTHS) or GROUPED in name
    if stage == "sizes":
        queries = int(dict(x.split("=") for x in name.split(",")[1:])["queries"])
        return peer == SCANNED and queries <= KEPT_SIZES
    return name.startswith(KEPT)
