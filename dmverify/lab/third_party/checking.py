"""Judges a folder of answers and writes the reports that ship with the project.

| file | holds |
|---|---|
| PEER.report.json | every judgement, the repeats, the tomography |
| PEER.json, PEER.safetensors | the answers: tensors of ``KEPT`` whole, hashes of the rest |
| README.md | one page for people |
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dmverify.lab.third_party.answers import Answers, Entry, from_json, load
from dmverify.lab.third_party.delta import prefix, read_delta
from dmverify.lab.third_party.judging import judge_all
from dmverify.lab.third_party.page import page

KEPT = (
    "gaussian/spread-64,",
    "offset/v-16,",
    "logit-size/negative-scale,batch=1,heads=1,kv_heads=1,queries",
)
"""Beginnings of the ids whose tensors ship."""
LENGTHS = ("queries=17,keys=17", "queries=65,keys=65", "queries=64,keys=192", "queries=129,keys=17")
"""Ends of those that ship, and the groups of three query heads."""
GROUPED = "heads=3,kv_heads=1"
KEPT_SIZES = 34
"""Up to so many queries, sizes ship of the peer whose dQ depends on them."""
KEPT_SCAN = (f"{prefix(2)}tomography/groups-", "offset=4@0")
SCANNED = "cudnn-fp8"


def check_all(folder: Path, reports: Path | None) -> int:
    """Judges every peer of a folder; 0 if all conform, 1 if one does not, 5 if there is none."""
    found = list(_read(folder))
    texts = {answers.peer: report(answers) for answers in found if answers.entries}
    repeats_only = {a.made_by.get("name", a.peer): a for a in found if not a.entries}
    for name, answers in repeats_only.items():
        texts[name] = {"peer": name, "made_by": answers.made_by, "repeats": answers.repeats}
    for text in texts.values():
        sys.stdout.write(json.dumps({"peer": text["peer"], **text.get("summary", {})}) + "\n")
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (reports / f"{name}.report.json").write_text(_strict(text))
        for answers in found:
            if answers.entries:
                shortened(answers).save(reports)
        (reports / "README.md").write_text(page(texts))
    if not texts:
        return 5
    wrong = [t for t in texts.values() if t.get("summary", {}).get("verdicts", {}).get("fails")]
    return 1 if wrong else 0


def _strict(text: dict[str, Any]) -> str:
    """JSON that any reader takes: infinities and NaN as words."""
    return json.dumps(_worded(text), allow_nan=False) + "\n"


def _worded(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _worded(item) for name, item in x.items()}
    if isinstance(x, list | tuple):
        return [_worded(item) for item in x]
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def report(answers: Answers) -> dict[str, Any]:
    """Everything about one peer."""
    judged = [one.to_json() for one in judge_all(answers)]
    margins = _worst(judged)
    return {
        "peer": answers.peer,
        "contract": answers.contract,
        "made_by": answers.made_by,
        "head_dim": answers.head_dim,
        "summary": {
            "verdicts": dict(Counter(one["verdict"] for one in judged)),
            "worst margin": margins,
        },
        "judged": judged,
        "delta": read_delta(answers, head_dim=answers.head_dim),
        "repeats": answers.repeats,
    }


def _worst(judged: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest margin of each output and where it was."""
    found: dict[str, Any] = {}
    for one in judged:
        for name, margin in one["margins"].items():
            if name not in found or margin["margin"] > found[name]["margin"]:
                found[name] = {"margin": margin["margin"], "case": one["case_id"]}
    return found


def shortened(answers: Answers) -> Answers:
    """The answers with the tensors that ship."""
    names = {name for e in answers.entries if _ships(answers, e) for name in e.tensors.values()}
    blobs = {name: x for name, x in answers.blobs.items() if name in names}
    return Answers(**{**vars(answers), "blobs": blobs})


def _ships(answers: Answers, entry: Entry) -> bool:
    if entry.stage == "tomography":
        begin, end = KEPT_SCAN
        scan = entry.case_id.startswith(begin) and entry.case_id.endswith(end)
        return scan and answers.peer == SCANNED
    name = entry.case_id.partition("@")[0]
    if entry.stage == "lengths":
        return name.endswith(LENGTHS) or GROUPED in name
    if entry.stage == "sizes":
        queries = int(dict(x.split("=") for x in name.split(",")[1:])["queries"])
        return answers.peer == SCANNED and queries <= KEPT_SIZES
    return name.startswith(KEPT)


def _read(folder: Path) -> Iterator[Answers]:
    """Answers of ``peers.json`` as asked, or of files as shipped."""
    gathered = folder / "peers.json"
    if not gathered.exists():
        for path in sorted(folder.glob("*.safetensors")):
            yield load(folder, path.stem)
        return
    for name, text in json.loads(gathered.read_text())["answers"].items():
        if text is not None:
            answers = from_json(text, folder / f"{name}.safetensors")
            answers.made_by["name"] = name
            yield answers
