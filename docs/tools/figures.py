"""Writes docs/findings/*.md from docs/tools/findings/*.md and the recorded studies.

    python docs/tools/figures.py           # writes pages and pictures
    python docs/tools/figures.py --check   # fails if a page would change

In a template, ``{{ name }}`` is a figure and ``{{ study: title }}`` the table of that title. Every
figure comes from a record, by the function of its name below; one that no page uses is an error,
as is a name that does not exist.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dmverify.studies import ablations, mechanism, real_model, scale, separate, train
from dmverify.studies.paper.rows import every_row
from dmverify.studies.recorded import recorded
from dmverify.studies.scale.report import trusted_up_to
from dmverify.studies.separate.report import times
from dmverify.studies.study import StudyResult, Table
from dmverify.studies.training.statistics import paired

DOCS = Path(__file__).parents[1]
TEMPLATES, PAGES = DOCS / "tools" / "findings", DOCS / "findings"
HOLE = re.compile(r"\{\{ (.+?) \}\}")
PICTURES = (
    ("separate", "fast-biases"), ("separate", "fast"), ("train", "residuals"),
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
        "mechanism": mechanism.report(data["mechanism"]["rows"]),
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
    rows = {(row["label"], row["name"], row["precision"]): row for row in data["rows"]}
    for key, (label, name) in SEPARATE.items():
        row = rows[label, name, "bf16"]
        if "gap" in row:
            yield f"{key} gap", f"{row['gap']:+.3f} ± {row['half']:.3f}"
            yield f"{key} worst", f"{row['worst']:+.3f}"
        for word in ("drift", "drift_first") if "drift" in row else ():
            yield f"{key} {word}", times(row[word], row[f"{word}_half"])
        if row["lost"] is not None:
            yield f"{key} lost", f"{row['lost']} of {row['seeds']}"
    for name, row in ((row["name"], row) for row in trained["rows"]):
        if name in ("stale", "matched"):
            yield f"train {name} gap", f"{row['gap']:+.3f} ± {row['gap_half']:.3f}"
            yield f"train {name} residual", f"{row['residual']:.1e}"
    late = next(run for run in data["runs"] if run["label"] == "late-biases")
    for when, point in (("first", late["points"][0]), ("last", late["points"][-1])):
        yield f"late {when} mean of K", f"{fmean(point['layers'][0]['k_ratio']):.2f}"
    yield from _early(data["runs"])
    exact = rows["fast-biases", "exact", "bf16"]
    yield "exact largest mean of K", f"{max(exact['k_mean']):.2f}"


SEPARATE = {
    "biased stale": ("fast-biases", "stale, centre_k=none"),
    "biased matched": ("fast-biases", "matched, centre_k=none"),
    "plain stale": ("fast", "stale, centre_k=none"),
}
EARLY, END = 400, 1200  # the last steps at which the kernel's run and the others were looked at


def _early(runs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The mean of K in the first layer, times exact's, at an early step."""
    of = {(run["label"], run["name"].split(",")[0]): run for run in runs}
    exact = _first_layer(of["fast-biases", "exact"])
    for key, run in (
        ("simulated stale", of["fast-biases", "stale"]),
        ("simulated matched", of["fast-biases", "matched"]),
        ("real stale", of["kernel-fast-biases", "kernel stale"]),
    ):
        found = paired(_first_layer(run), exact)
        yield f"{key} early", times(found.mean, found.half)
    ends = (_first_layer(of["fast-biases", delta], END) for delta in ("stale", "matched"))
    found = paired(*ends)
    yield "stale over matched", times(found.mean, found.half)


def _first_layer(run: dict[str, Any], step: int = EARLY) -> list[float]:
    point = next(point for point in run["points"] if point["step"] == step)
    return [math.log(x) for x in point["layers"][0]["k_mean"]]


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
