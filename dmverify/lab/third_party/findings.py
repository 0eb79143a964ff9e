"""What the reports show that a user should know, each sentence computed from them.

| finding | shown by |
|---|---|
| rows that dQ loses | an output outside of its band in its last row only, by zeros |
| scales that are not positive | the same scale with a causal mask and without one |
| what delta costs | tomography, and dK's error with and without a common offset in V |
| bits that change | repeats |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Reports = Mapping[str, dict[str, Any]]
SCALES = ("negative-scale", "zero-scale")


def findings(reports: Reports) -> Iterator[str]:
    """Paragraphs of markdown."""
    for found in (lost_rows, scales, deltas, changing_bits):
        yield from found(reports)


def sizes(case_id: str) -> dict[str, str]:
    """The fields of a case id."""
    return dict(x.split("=") for x in case_id.partition("@")[0].split(",")[1:])


def versions(text: Mapping[str, Any]) -> str:
    """What made a report; cuDNN's 91900 is its 9.19.0."""
    told = str(text["made_by"]["versions"])
    return re.sub(r"cuDNN (\d+)(\d\d)(\d\d)\b", _dotted, told)


def _dotted(found: re.Match[str]) -> str:
    return "cuDNN " + ".".join(str(int(part)) for part in found.groups())


def loses_last_row(one: Mapping[str, Any]) -> bool:
    """Whether all that is wrong with a judged case are zeros in the last row of dQ."""
    off = one["notes"].get("outside", {})
    if set(off) != {"dq"}:
        return False
    last = int(sizes(one["case_id"])["queries"]) - 1
    return bool(off["dq"]["rows"] == [last] and off["dq"]["zero"] == off["dq"]["elements"])


def lost_rows(reports: Reports) -> Iterator[str]:
    """dQ whose last row is 0 in some channels."""
    for name, text in reports.items():
        lost = [one for one in text["judged"] if loses_last_row(one)]
        if not lost:
            continue
        right = [one for one in text["judged"] if one["verdict"] == "conforms"]
        least = min(lost, key=lambda one: int(sizes(one["case_id"])["queries"]))
        channels = sorted({one["notes"]["outside"]["dq"]["channels"] for one in lost}, key=len)
        yield (
            f"**{name} ({versions(text)}) writes zeros into the last row of dQ.** "
            f"Channels {channels[-1]} of that row are 0; the rest of it and every other output are "
            f"right. Batch x heads x queries where it happens: {_counts(lost)}; where "
            f"it does not: {_counts(right)}. dQ was filled with NaN codes before the call, so the "
            f"zeros are the kernel's own. Smallest input seen: `{least['case_id']}`.\n"
        )


def _counts(judged: Sequence[Mapping[str, Any]]) -> str:
    fields = [sizes(one["case_id"]) for one in judged]
    found = {tuple(int(f[x]) for x in ("batch", "heads", "queries")) for f in fields}
    ordered = sorted(found, key=lambda x: (x[2], x))
    return ", ".join("x".join(str(n) for n in one) for one in ordered)


def scales(reports: Reports) -> Iterator[str]:
    """Softmax scales of 0 and below, with a mask and without."""
    masked: dict[str, list[str]] = {"fails": [], "conforms": []}
    plain: dict[str, list[str]] = {"fails": [], "conforms": []}
    for name, text in reports.items():
        for where, causal in ((masked, True), (plain, False)):
            words = {one["verdict"] for one in text["judged"] if _scale(one, causal=causal)}
            if words:
                where["fails" if "fails" in words else "conforms"].append(name)
    if not masked["fails"]:
        return
    yield (
        "**A softmax scale that is not positive breaks masked rows in "
        f"{_names(masked['fails'])}.** With a causal mask every row that has a hidden key comes "
        "back as NaN, infinity or zeros; rows that see all keys of their tiles are right. That is "
        "what a mask of -inf does that is put on the scores before the scale: -inf times 0 is NaN, "
        f"times a negative number +inf. {_names(masked['conforms']) or 'None'} is right."
        + (
            f" Without a mask {_names(plain['conforms'])} give the right numbers."
            * bool(plain["conforms"])
        )
        + (f" Even without one {_names(plain['fails'])} do not." * bool(plain["fails"]))
        + " No call was refused, and the docstrings and schemas ask for no positive scale.\n"
    )


def _scale(one: Mapping[str, Any], *, causal: bool) -> bool:
    case_id = str(one["case_id"])
    hidden = sizes(case_id).get("causal", "1") == "1"
    return case_id.startswith(tuple(f"logit-size/{x}" for x in SCALES)) and hidden is causal


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def deltas(reports: Reports) -> Iterator[str]:
    """Which delta, with its slope, and what a common offset in V then costs."""
    for name, text in reports.items():
        rows = [row for row in text["delta"] if row["verdict"] == "consistent"]
        if not rows:
            continue
        slopes, before, after = [], [], []
        for row in rows:
            scan = max(row["scans"], key=lambda one: abs(one["offset"]))
            slopes.append(scan["coefficients"]["shortcut"]["value"])
            before.append(row["dk_error"].get("0"))
            after.append(row["dk_error"][f"{scan['offset']:g}"])
        yield (
            f"**{name} takes delta from the O that it stored**: the row sums that its dK shows are "
            f"{_span(slopes, '.3f')} times what <dO, O> leaves with that O (V ~ {scan['offset']:g} "
            f"+ N(0, 1), spreads {_span([row['spread'] for row in rows], 'g')} of the logits). dK "
            f"is off by {_percent(after)} there" + _against(before) + ".\n"
        )


def _against(before: Sequence[float | None]) -> str:
    known = [x for x in before if x is not None]
    return f", by {_percent(known)} with V ~ N(0, 1)" if known else ""


def _percent(numbers: Sequence[float]) -> str:
    return f"{100 * min(numbers):.2g} to {100 * max(numbers):.2g} %"


def _span(numbers: Sequence[float], form: str) -> str:
    return f"{min(numbers):{form}} to {max(numbers):{form}}"


def changing_bits(reports: Reports) -> Iterator[str]:
    """Outputs that repeated calls give other bits."""
    for name, text in reports.items():
        rows = [r for r in text["repeats"] if r.get("runs_that_differ") and r["varied"] != "batch"]
        if rows:
            most = max(row["most_elements"] for row in rows)
            yield (
                f"**{name} gives {_names(sorted({row['output'] for row in rows}))} other bits from "
                f"call to call**, in at most {most} of {rows[0]['elements']} elements.\n"
            )
