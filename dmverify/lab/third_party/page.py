"""One page for people from the reports of all peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dmverify.lab.third_party.findings import findings, sizes, versions

OUTPUTS = ("o", "lse", "dq", "dk", "dv")
REASON = 100  # characters of a library's error
HEAD = """# What other attention kernels do, seen from outside

Kernels that others ship, asked the questions of this suite on one H200 in one run. Their outputs
are recorded number for number and judged here, on a CPU, by the contract that the kernel's
documents and public source state (`dmverify/spec/contracts/data`): which operands, P, delta and dS
it rounds, and how; what is not public is left open. Nothing here is about speed.
"""
MEANING = """## How to read it

| word | means |
|---|---|
| conforms | every output element is one that the contract allows |
| fails | an element is none that the contract allows; see the last table |
| described | outside of what the kernel promises to serve, or NaN and infinity: told, not judged |
| refused | the library says that it does not serve the case |
| margin | distance from the middle of what is allowed, in units of it: at most 1 conforms |
| offset | what is added to V ~ N(0, 1) |
| slope | the row sums of dS that dK shows, over those that delta = <dO, O> would leave |
| dK error | norm of dK's error over that of dK, exact on the kernel's own operands |

Gradients are judged as a function of the O and LSE that the kernel itself returned. Where these
are wrong, answers that ship are judged by what any forward may have given; the rows of the others
are from the day of the run, and were judged by what was returned.
"""
COMMANDS = """## Again

`dmverify lab judge FOLDER` judges the answers beside this page; some
are left out to keep them small (`dmverify.lab.third_party.checking`), and the reports say what was
found of all. `dmverify lab ask OUT` asks all kernels again on a Hopper GPU with torch and the
wheels `tokenspeed-fa3` and `nvidia-cudnn-frontend`; `dmverify lab judge OUT --reports FOLDER` then
makes this page. The questions are `dmverify.lab.third_party.questions`.
"""


def page(reports: Mapping[str, dict[str, Any]]) -> str:
    """The page, in markdown."""
    full = {name: text for name, text in reports.items() if "judged" in text}
    parts = [HEAD, *_overview(full), *_versions(full), *_found(full), MEANING]
    parts += [*_margins(full), *_delta(full), *_repeats(reports)]
    parts += [*_masks(full), *_specials(full), *_outside(full), COMMANDS]
    return "\n".join(parts)


def _found(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## What stands out\n"
    yield from findings(reports)


def _overview(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    rows = [(name, *_summary(text)) for name, text in reports.items()]
    head = ("kernel", "judged", "conform", "causal alignment", "rows without keys: LSE")
    yield _table((*head, "same bits again", "delta", "dK error at offset 0", "at 4"), rows)


def _summary(text: Mapping[str, Any]) -> Iterator[str]:
    verdicts = text["summary"]["verdicts"]
    yield str(verdicts.get("conforms", 0) + verdicts.get("fails", 0))
    yield str(verdicts.get("conforms", 0))
    masks = [one["notes"] for one in text["judged"] if "mask" in one["notes"]]
    corners = {min(note["mask"], key=lambda word: note["mask"][word]) for note in masks}
    yield ", ".join(sorted(corners))
    bottom = corners == {"bottom right"}
    yield ", ".join(sorted({n["dead rows"]["lse"] for n in masks if bottom and "dead rows" in n}))
    moved = [r for r in text["repeats"] if r.get("runs_that_differ")]
    yield "all but " + ", ".join(sorted({r["output"] for r in moved})) if moved else "all"
    yield ", ".join(sorted({row["mode"] or row["verdict"] for row in text["delta"]}))
    for offset in ("0", "4"):
        known = [row["dk_error"][offset] for row in text["delta"] if offset in row["dk_error"]]
        yield f"{100 * min(known):.2g} to {100 * max(known):.2g} %" if known else ""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def _versions(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    rows = [
        (name, text["contract"], versions(text), text["made_by"]["device"])
        for name, text in reports.items()
    ]
    yield _table(("kernel", "contract", "versions", "device"), rows)


def _margins(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## Does it meet its contract?\n"
    rows = []
    for name, text in reports.items():
        counts = ", ".join(f"{n} {word}" for word, n in text["summary"]["verdicts"].items())
        fine = [one["margins"] for one in text["judged"] if one["verdict"] == "conforms"]
        found = ([m[x]["margin"] for m in fine if x in m] for x in OUTPUTS)
        rows.append((name, counts, *(f"{max(x):.3f}" if x else "" for x in found)))
    yield _table(("kernel", "answers", *OUTPUTS), rows)
    yield "Largest margin of each output where all conform; the last table has the others.\n"


def _delta(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## Which delta does its backward take, and what does that cost?\n"
    rows = []
    for name, text in reports.items():
        for one in text["delta"]:
            for scan in one["scans"]:
                found = scan["coefficients"].get("shortcut")
                slope = "" if found is None else f"{found['value']:.3f} [{_ends(found)}]"
                cost = one["dk_error"][f"{scan['offset']:g}"]
                rows.append(
                    (
                        name,
                        f"{one['spread']:g}",
                        f"{scan['offset']:g}",
                        one["mode"] or one["verdict"],
                        slope,
                        f"{scan['relative']['value'][0]:.2e}",
                        f"{cost:.3g}",
                    )
                )
    head = ("kernel", "spread", "offset of V", "delta", "slope", "median R / sum abs dS")
    yield _table((*head, "dK error"), rows)


def _ends(estimate: dict[str, float | None]) -> str:
    low, high = estimate["low"], estimate["high"]
    return "unknown" if low is None or high is None else f"{low:.3f}, {high:.3f}"


def _repeats(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## Does it give the same bits again?\n"
    rows = []
    for name, text in reports.items():
        for one in text["repeats"]:
            mask = "causal" if "causal=1" in one["case"] else "full"
            if "error" in one:
                rows.append((name, mask, one["varied"], one["error"], "", ""))
            elif one["runs_that_differ"]:
                of = f"{one['runs_that_differ']} of {one['runs']} runs"
                most = f"{one['most_elements']} of {one['elements']}"
                rows.append((name, mask, one["varied"], one["output"], of, most))
    yield _table(("kernel", "mask", "varied", "output", "differs in", "elements"), rows)
    yield "What is not in the table was the same, bit for bit.\n"


def _masks(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## Causal masks on unequal lengths, rows without keys, LSE\n"
    rows = []
    for name, text in reports.items():
        for one in text["judged"]:
            mask = one["notes"].get("mask")
            if mask is not None:
                near = min(mask, key=lambda word: mask[word])
                dead = one["notes"].get("dead rows", {})
                shown = "; ".join(f"{k} {v}" for k, v in dead.items())
                rows.append((name, _sizes(one["case_id"]), near, f"{mask[near]:.2e}", shown))
    yield _table(("kernel", "sizes", "alignment", "error of O", "rows without keys"), rows)
    yield _table(
        ("kernel", "largest error of LSE from its natural value", "from its base-2 value"),
        [(name, *_lse(text)) for name, text in reports.items()],
    )


def _lse(text: dict[str, Any]) -> tuple[str, str]:
    found = [one["notes"]["lse"] for one in text["judged"] if _ordinary(one)]
    words = ("natural", "base 2")
    return tuple(f"{max(x[word] for x in found):.2e}" if found else "" for word in words)  # type: ignore[return-value]


def _ordinary(one: dict[str, Any]) -> bool:
    conforms, case_id = one["verdict"] == "conforms", str(one["case_id"])
    return conforms and case_id.startswith("gaussian/spread-2")


def _specials(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## A NaN or an infinity in one element\n"
    yield "NaN rows of those that can see it; further NaN rows; rows with an infinity.\n"
    rows = []
    for name, text in reports.items():
        for one in text["judged"]:
            if one["case_id"].startswith("special/") and one["verdict"] == "described":
                rows.append((name, one["case_id"].split(",")[0][8:], *_special(one["notes"])))
    yield _table(("kernel", "in", *OUTPUTS), rows)


def _special(notes: dict[str, Any]) -> Iterator[str]:
    for output in OUTPUTS:
        found = notes.get(output)
        if found is None:
            yield ""
            continue
        seen = f"{found['of them NaN']} of {found['rows that can see it']}"
        yield f"{seen}; {found['others NaN']}; {found['rows with infinity']}"


def _outside(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    rows = []
    for name, text in reports.items():
        for one in text["judged"]:
            if one["verdict"] in ("refused", "error"):
                reason = one["reason"].replace("|", "/")[:REASON]
                rows.append((name, one["case_id"], f"{one['verdict']}: {reason}"))
            for output, off in one["notes"].get("outside", {}).items():
                if one["verdict"] == "fails":
                    rows.append((name, one["case_id"], _words(output, off, one["margins"][output])))
    if rows:
        yield "## What is refused or outside\n"
        yield _table(("kernel", "case", "what"), rows)


def _words(output: str, off: Mapping[str, Any], margin: Mapping[str, Any]) -> str:
    what = ", ".join(f"{off[word]} {word}" for word in ("NaN", "zero") if off[word])
    rows = (
        f"row {off['rows'][0]}" if off["number of rows"] == 1 else f"{off['number of rows']} rows"
    )
    where = f"{output}: {off['elements']} elements of {rows}" + (f" ({what})" if what else "")
    at = ", ".join(str(i) for i in margin["at"])
    low, high, got = (float(margin[name]) for name in ("low", "high", "got"))  # JSON has words
    return f"{where}; at ({at}) {got:g}, allowed {low:g} to {high:g}"


def _sizes(case_id: str) -> str:
    fields = sizes(case_id)
    return f"{fields['queries']} x {fields['keys']}"
