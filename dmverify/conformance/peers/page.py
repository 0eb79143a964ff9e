"""One page for people from the reports of all peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OUTPUTS = ("o", "lse", "dq", "dk", "dv")
HEAD = """# What other attention kernels do, seen from outside

Every kernel was asked on one machine in one run, and judged from its stored answers by the contract
that its documents and public source state (`dmverify.spec.contracts.peers`). A margin is the
distance from the middle of what the contract allows, in units of what it allows: at most 1
conforms. Gradients are judged as a function of the O and LSE that the kernel itself returned.

`python -m dmverify.conformance.peers check FOLDER` judges the answers that ship beside this page
again. What is kept of each answer is listed in `dmverify.conformance.peers.checking`.
"""


def page(reports: Mapping[str, dict[str, Any]]) -> str:
    """The page, in markdown."""
    full = {name: text for name, text in reports.items() if "judged" in text}
    parts = [HEAD, *_versions(full), *_margins(full), *_delta(full), *_repeats(reports)]
    parts += [*_masks(full), *_specials(full), *_outside(full)]
    return "\n".join(parts) + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def _versions(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    rows = [
        (name, text["contract"], text["made_by"]["versions"], text["made_by"]["device"])
        for name, text in reports.items()
    ]
    yield _table(("kernel", "contract", "versions", "device"), rows)


def _margins(reports: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "## Does it meet its contract?\n"
    rows = []
    for name, text in reports.items():
        verdicts, worst = text["summary"]["verdicts"], text["summary"]["worst margin"]
        counts = ", ".join(f"{count} {word}" for word, count in verdicts.items())
        shown = (f"{worst[x]['margin']:.3f}" if x in worst else "" for x in OUTPUTS)
        rows.append((name, counts, *shown))
    yield _table(("kernel", "answers", *OUTPUTS), rows)


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
            if one["verdict"] == "error":
                rows.append((name, one["case_id"], one["reason"].replace("|", "/")))
            for output, margin in one["margins"].items():
                if margin["margin"] > 1:
                    words = (
                        f"{output}{margin['at']} = {margin['got']:g}, "
                        f"allowed {margin['low']:g} to {margin['high']:g}"
                    )
                    rows.append((name, one["case_id"], words))
    if rows:
        yield "## What is refused or outside\n"
        yield _table(("kernel", "case", "what"), rows)


def _sizes(case_id: str) -> str:
    fields = dict(x.split("=") for x in case_id.partition("@")[0].split(",")[1:])
    return f"{fields['queries']} x {fields['keys']}"
