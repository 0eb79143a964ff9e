"""Writes docs/findings/*.md from docs/tools/findings/*.md and the recorded studies.

    python docs/tools/figures.py           # writes pages and pictures
    python docs/tools/figures.py --check   # fails if a page would change

In a template, ``{{ name }}`` is a figure and ``{{ study: title }}`` the table of that title. Every
figure comes from a record, by the function of its name below; one that no page uses is an error,
as is a name that does not exist.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from dmverify.studies import ablations, mechanism, real_model, scale, separate, train
from dmverify.studies.paper.rows import every_row
from dmverify.studies.recorded import recorded
from dmverify.studies.scale.report import trusted_up_to
from dmverify.studies.separate.beside import sharp_seeds, times
from dmverify.studies.separate.claims import (
    CALM,
    FP32,
    FROZEN,
    INJECTED,
    INTO_EXACT,
    LINKED,
    MIDDLE,
    NORMED,
    PROJECTED,
    REAL_MATCHED,
    REAL_STALE,
    TF32,
)
from dmverify.studies.separate.places import (
    ACT,
    EXACT,
    FAST,
    FREE,
    LATE,
    PUSHED,
    at,
    exact,
    of,
    real,
)
from dmverify.studies.separate.table import (
    ASSOCIATED,
    CENTRED,
    CODES,
    CONSISTENT,
    KEPT,
    MATCHED,
    STALE,
)
from dmverify.studies.study import StudyResult, Table
from dmverify.studies.training.statistics import paired

DOCS = Path(__file__).parents[1]
TEMPLATES, PAGES = DOCS / "tools" / "findings", DOCS / "findings"
HOLE = re.compile(r"\{\{ (.+?) \}\}")
PICTURES = (
    ("separate", "fast-biases"), ("separate", "act"), ("separate", "kernel-fast-biases"),
    ("separate", "late-fast"), ("separate", "factor-no-decay"), ("separate", "no-decay-act"),
    ("separate", "usual-tf32"),     ("train", "residuals"),
    ("mechanism", "push"), ("real-model", "sharpness"), ("scale", "along-keys"),
    ("scale", "along-spread"), ("scale", "along-v-offset"), ("ablations", "changes"),
)  # fmt: skip
Read = Callable[[str], dict[str, Any]]


def results(read: Read) -> dict[str, StudyResult]:
    """The recorded studies, with their tables and pictures."""
    data = {name: read(name) for name in ("mechanism", "real-model", "scale", "ablations")}
    return {
        "separate": separate.result_of(read("separate")["runs"]),
        "train": train.report(read("train")["runs"]),
        "mechanism": mechanism.report(data["mechanism"]["runs"]),
        "real-model": real_model.report(data["real-model"]["rows"], data["real-model"]["shares"]),
        "scale": scale.report(data["scale"]["rows"], data["scale"]["card"]),
        "ablations": ablations.report(data["ablations"]["rows"], data["ablations"]["runs"]),
    }


def figures(read: Read) -> dict[str, str]:
    """Every figure that a page may name."""
    return dict(
        [
            *_training(read("separate"), read("train")),
            *_attention(read("real-model"), read("scale")),
            *_gains(read("mechanism")),
            *_changes(read("ablations")),
            *_published(read),
        ]
    )


def _training(data: dict[str, Any], trained: dict[str, Any]) -> Iterator[tuple[str, str]]:
    rows = {(row["label"], row["name"]): row for row in data["rows"]}
    for key, (place, words) in SEPARATE.items():
        row = rows[place]
        yield from ((f"{key} {word}", SHOWN[word](row)) for word in words)
    for name, row in ((row["name"], row) for row in trained["rows"]):
        if name in ("stale", "matched"):
            yield f"train {name} gap", f"{row['gap']:+.3f} ± {row['gap_half']:.3f}"
            yield f"train {name} residual", f"{row['residual']:.1e}"
    yield from _late(data["runs"])
    alone = next(row for row in data["predictions"] if row["claim"] == "TF32 alone does not push")
    yield "tf32 alone", alone["found"]
    yield from _early(data["runs"])
    yield from _behind({row["kind"]: row for row in data["behind"]})
    verdicts = [row["verdict"] for row in data["predictions"]]
    yield "predictions", str(len(verdicts))
    for verdict in ("holds", "refuted", "open"):
        yield f"predictions {verdict}", str(verdicts.count(verdict))


SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {
    "gap": lambda row: f"{row['gap']:+.3f} ± {row['half']:.3f}",
    "worst": lambda row: f"{row['worst']:+.3f}",
    "drift": lambda row: times(row["drift"], row["drift_half"]),
    "drift_first": lambda row: times(row["drift_first"], row["drift_first_half"]),
    "lost": lambda row: f"{row['lost']} of {row['seeds']}",
    "sharp": lambda row: f"{row['sharp']} of {row['seeds']}",
    "stayed": lambda row: str(row["stayed"]),
    "validation": lambda row: ", ".join(f"{loss:.2f}" for loss in row["validation"]),
    "largest": lambda row: f"{max(row['k_mean']):.2f}",
}
# Which words of which run a page says.
LATE_REAL, LATE_STALE = real("stale", LATE), of(LATE, STALE)
SEPARATE = {
    "exact": (EXACT, ("lost", "largest", "sharp", "stayed")),
    "stale": (PUSHED, ("gap", "worst", "drift", "drift_first", "lost", "sharp", "stayed")),
    "projected": (PROJECTED, ("gap", "worst", "drift_first", "lost")),
    "frozen": (FROZEN, ("gap", "lost")),
    "injected": (INJECTED, ("gap", "worst", "drift_first", "lost")),
    "dq": (of(ACT, MATCHED.but(act="stale-dq")), ("gap", "worst", "lost", "stayed")),
    "dk": (of(ACT, MATCHED.but(act="stale-dk")), ("gap", "worst", "lost", "stayed")),
    "turned": (of(ACT, STALE.but(act="alternate")), ("gap", "lost", "stayed")),
    "calm": (CALM, ("gap", "lost", "sharp", "stayed")),
    "centred": (MIDDLE, ("worst", "lost")),
    "codes": (of(FAST, CODES), ("worst", "lost")),
    "consistent": (of(FAST, CONSISTENT), ("gap", "lost", "stayed")),
    "real stale": (REAL_STALE, ("gap", "worst", "sharp", "stayed")),
    "real matched": (REAL_MATCHED, ("gap", "worst", "sharp", "stayed")),
    "late": (LATE_REAL, ("validation",)),
    "late exact": (exact(LATE), ("validation",)),
    "late stale": (LATE_STALE, ("validation", "worst")),
    "late calm": (of(LATE, MATCHED), ("validation", "gap")),
    "free exact": (exact(FREE), ("sharp", "stayed")),
    "late centred": (of(LATE, CENTRED), ("validation",)),
    "late real calm": (real("matched", LATE), ("validation",)),
    "free stale": (of(FREE, STALE), ("gap",)),
    "free calm": (of(FREE, MATCHED), ("gap",)),
    "free centred": (of(FREE, CENTRED), ("gap",)),
    "free codes": (of(FREE, CODES), ("gap",)),
    "free consistent": (of(FREE, CONSISTENT), ("gap",)),
    "free linked": (of(FREE, ASSOCIATED), ("gap",)),
    "free projected": (of(FREE, STALE.but(act="project")), ("gap",)),
    "free frozen": (of(FREE, STALE.but(act="freeze")), ("gap",)),
    "free injected": (of(FREE, MATCHED.but(act="inject")), ("gap", "drift")),
    "free turned": (of(FREE, STALE.but(act="alternate")), ("gap",)),
    "free dq": (of(FREE, MATCHED.but(act="stale-dq")), ("gap",)),
    "free dk": (of(FREE, MATCHED.but(act="stale-dk")), ("gap",)),
    "free real stale": (real("stale", FREE, **KEPT), ("gap",)),
    "free real calm": (real("matched", FREE, **KEPT), ("gap",)),
    "linked": (LINKED, ("gap", "lost")),
    "into exact": (INTO_EXACT, ("gap", "drift")),
    "normed stale": (of(NORMED, STALE), ("gap", "lost")),
    "usual stale": (of(TF32, STALE), ("gap", "lost", "drift")),
    "full stale": (of(FP32, STALE), ("gap", "drift")),
}


EARLY = 400  # steps


def _early(runs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Stale without weight decay when its layers have just become sharp."""
    found = (at(runs, place) for place in (of(FREE, STALE), exact(FREE)))
    mine, base = (p for run in found if run for p in run["points"] if p["step"] == EARLY)
    yield "early sharp", f"{sharp_seeds([mine])} of {len(mine['validation'])}"
    yield "early gap", str(paired(mine["validation"], base["validation"]))


def _behind(rows: dict[str, dict[str, int]]) -> Iterator[tuple[str, str]]:
    """Seeds behind and seeds, of simulated and real FP8 without interventions."""
    for delta in ("stale", "matched"):
        mine = [rows[kind] for kind in (delta, f"{delta}, bundled kernel")]
        for word in ("never", "sharp") if delta == "stale" else ("sharp",):
            late, all_of = (sum(row[name] for row in mine) for name in (f"{word}_behind", word))
            yield f"{word if delta == 'stale' else delta} behind", f"{late} of {all_of} seeds"


def _late(runs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """How far a seed without a sharp layer ends behind."""
    ends = (at(runs, place)["points"][-1] for place in (LATE_STALE, exact(LATE)))
    mine, base = (float(end["validation"][2]) for end in ends)
    yield "late stale third", f"{mine - base:+.3f}"


def _attention(real: dict[str, Any], scaled: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for delta in ("stale", "consistent", "matched", "shifted"):
        mine = [
            row
            for row in real["rows"]
            if row["base"] == "article" and row["delta"] == delta and row["ds_cast"] == "nearest"
        ]
        for key in ("residual", "residual_cast"):
            values = [row[key] for row in mine if row[key] is not None]
            yield f"heads {delta} {key}", f"{median(values):.1e}"
            yield f"heads {delta} {key} largest", f"{max(values):.1e}"
    yield "heads", str(len({(row["capture"], row["head"]) for row in real["rows"]}))
    for key, (variant, axis, measure) in TRUSTED.items():
        reached = trusted_up_to(scaled["rows"], axis, variant, measure)
        yield key, "nowhere" if reached is None else f"{reached:g}"
    places = {(row["axis"], row["x"], row["variant"]): row for row in scaled["rows"]}
    for key, (axis, x, variant, measure) in ERRORS.items():
        yield key, f"{100 * places[axis, x, variant][measure]:.0f} %"
    card = {(row["keys"], row["values"], row["delta"]): row for row in scaled["card"]}
    for delta in ("stale", "matched"):
        ends = (card[keys, "positive", delta]["dq_error"] for keys in (512, 65536))
        yield f"card dq {delta}", " to ".join(f"{100 * x:.1f} %" for x in ends)
    biases = [row["o_bias"] for row in scaled["card"] if row["values"] == "positive"]
    yield "card bias", f"{100 * min(biases):.2f} to {100 * max(biases):.2f} %"


TRUSTED = {
    "matched up to spread": ("matched", "spread", "residual"),
    "matched worst up to spread": ("matched", "spread", "residual_max"),
    "shifted worst up to spread": ("shifted", "spread", "residual_max"),
    "consistent up to v_offset": ("consistent", "v_offset", "residual"),
}
ERRORS = {
    "stale dq at v_offset 16": ("v_offset", 16, "stale", "dq_error"),
    "matched dq at v_offset 16": ("v_offset", 16, "matched", "dq_error"),
    "centred o at k_offset 16": ("k_offset", 16, "matched", "o_error"),
    "not centred o at k_offset 16": ("k_offset", 16, "matched, K as it is", "o_error"),
}


def _gains(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for row in data["summary"]:
        yield f"{row['delta']} push", f"{row['push']:.3f} ± {row['push_half']:.3f}"
    stale = data["summary"][0]
    yield "rows agree", f"{100 * stale['agree']:.2f} %"
    yield "rows slope", f"{stale['slope']:.3f} ± {stale['slope_half']:.3f}"


def _changes(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    rows = [row for row in data["rows"] if row["spread"] == 2.0]
    yield (
        "changes",
        "\n".join(
            f"| {row['change']} | {row['residual']:.1e} | {row['residual_cast']:.1e} "
            f"| {100 * row['dq_error']:.1f} % |"
            for row in rows
        ),
    )


def _published(read: Read) -> Iterator[tuple[str, str]]:
    rows = list(every_row(read))
    for verdict in ("reproduced", "contradicted", "out of reach"):
        yield verdict, str(sum(row.verdict == verdict for row in rows))
    lines = ["| figure | published | ours | verdict | how, or why not |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.section}: {_cell(row.figure)} | {_cell(row.published)} | {_cell(row.ours or '-')} "
        f"| {row.verdict} | {_cell(row.why)} |"
        for row in rows
    ]
    yield "every figure", "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(table: Table) -> str:
    """A table of a study, and its note."""
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    text = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
    return f"{text}\n\n{table.note}" if table.note else text


def filled(text: str, known: dict[str, str], used: set[str]) -> str:
    """A template with its holes filled; what it names goes into ``used``."""

    def value(found: re.Match[str]) -> str:
        used.add(found[1])
        return known[found[1]]

    return HOLE.sub(value, text)


def once(text: str) -> str:
    """A page without the paragraphs that it has already had: notes of tables."""
    paragraphs = list(dict.fromkeys(text.rstrip("\n").split("\n\n")))
    return "\n\n".join(paragraphs) + "\n"


def pages(read: Read = recorded) -> dict[str, str]:
    """The text of every page.

    Raises:
        KeyError: If a page names what does not exist.
        ValueError: If a figure is named nowhere.
    """
    known, used = figures(read), set[str]()
    tables = {
        f"{name}: {table.title}": markdown(table)
        for name, result in results(read).items()
        for table in result.tables()
    }
    texts = {
        path.name: once(filled(path.read_text(encoding="utf-8"), known | tables, used))
        for path in sorted(TEMPLATES.glob("*.md"))
    }
    if unused := sorted(known.keys() - used):
        raise ValueError(f"figures that no page names: {unused}")
    return texts


def main(check: bool) -> int:
    """Writes or checks the pages; returns the exit code."""
    made = pages()
    if check:
        stale = [name for name, text in made.items() if (PAGES / name).read_text() != text]
        sys.stderr.writelines(f"stale: docs/findings/{name}\n" for name in stale)
        return len(stale)
    from dmverify.studies.plot import render

    found = results(recorded)
    for name, text in made.items():
        (PAGES / name).write_text(text, encoding="utf-8")
    for study, picture in PICTURES:
        plot = next(plot for plot in found[study].plots if plot.name == picture)
        (PAGES / f"{study}-{picture}.svg").write_text(render(plot), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
