"""Figures of studies that stand in pages written by hand are those of the records."""

import copy
from statistics import median

import pytest

from dmverify.studies.adversarial.cells import EVALUATIONS
from dmverify.studies.recorded import recorded
from tests.docs.pages import ROOT

BOXES = (0.01, 0.03, 0.1)


def short(x):
    """Two digits, as the pages have them: 0.10 keeps its last one, 3.0 too."""
    digits = f"{x:#.2g}".rstrip(".")
    return digits


def attacked(read):
    """The rows of the table of worst dQ in docs/attack.md."""
    rows = read("adversarial")["cells"]
    modes = dict.fromkeys((row["delta"], row["ds_cast"]) for row in rows)
    for delta, ds_cast in modes:
        mine = [row for row in rows if (row["delta"], row["ds_cast"]) == (delta, ds_cast)]
        free = [
            [r["worst"] for r in mine if (r["against"], r["place"]) == (against, 32)]
            for against in ("operands", "inputs")
        ]
        near = [
            ", ".join(short(at(mine, against, within)) for within in BOXES)
            for against in ("operands", "inputs")
        ]
        cells = [f"{short(median(x))} ({short(min(x))} to {short(max(x))})" for x in free]
        yield f"| {delta}, {ds_cast} | {' | '.join([*cells, *near])} |"
        yield from by_length(delta, ds_cast, mine)


def by_length(delta, ds_cast, rows):
    """A row of the table of lengths: medians against the operands; empty where nothing ran."""
    found = {}
    for row in rows:
        if row["against"] == "operands" and isinstance(row["place"], int):
            found.setdefault(row["place"], []).append(row["worst"])
    if len(found) > 1:
        cells = (short(median(found[n])) if n in found else "" for n in EVALUATIONS)
        yield f"| {delta} {ds_cast}, by length | {' | '.join(cells)} |"


def at(rows, against, within):
    where = (against, "minilm-short/layer5", within)
    found = [r["worst"] for r in rows if (r["against"], r["place"], r["within"]) == where]
    return median(found)


def searched(read):
    """What docs/evidence.md says of the searches for false alarms."""
    again = read("false_positives_again")
    yield f"none in {again['cases']:,} cases, {again['values'] / 1e9:.1f} billion values"
    first = [read(name) for name in ("false_positives", "false_positives_emulator")]
    assert first[0]["cases"] == first[1]["cases"]
    yield f"two earlier searches of {first[0]['cases']:,} cases each"
    live = [read(f"false_positives_bundled{name}") for name in ("", "_again")]
    both = " and ".join(f"{record['cases']:,}" for record in live)
    yield f"none in {both} cases, {sum(r['values'] for r in live) / 1e9:.1f} billion values"
    assert not any(record["alarms"] for record in (again, *first, *live))
    formats = read("false_positives_formats")
    assert not formats["alarms"]
    yield f"{formats['cases']:,} cases of the formats that contracts can state"


def published(read):
    """What docs/mathematics.md quotes."""
    figures = {one["figure"]: one["published"] for one in read("residuals")["published"]}
    for delta in ("matched", "stale"):
        value = figures[f"residual, {delta}, gaussian, spread 1"]
        yield f"{value:.1e}".replace("e-0", "e-")


PAGES = {
    "docs/attack.md": attacked,
    "docs/evidence.md": searched,
    "docs/mathematics.md": published,
}


def missing(page, read):
    """Claims of the records that the page does not have; lines may break anywhere."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    return [claim for claim in PAGES[page](read) if " ".join(claim.split()) not in text]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_the_records_say(page):
    assert missing(page, recorded) == []


CHANGED = {
    "docs/attack.md": ("adversarial", lambda data: data["cells"][0].update(worst=0.777)),
    "docs/evidence.md": ("false_positives_bundled", lambda data: data.update(cases=1727)),
    "docs/mathematics.md": ("residuals", lambda data: data["published"][0].update(published=9e-3)),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_parted_from_its_record_is_noticed(page):
    name, change = CHANGED[page]
    data = copy.deepcopy(recorded(name))
    change(data)
    assert missing(page, lambda asked: data if asked == name else recorded(asked))
