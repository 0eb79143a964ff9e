"""Figures of studies that stand in pages written by hand are those of the records."""

import copy
import json

import pytest

from dmverify.attack.shipped import SHIPPED, read_indexed
from dmverify.lab.recordings import DATA
from dmverify.studies.recorded import recorded
from tests.docs.attack_tables import (
    attack_rows,
    equal_rows,
    kernel_rows,
    rate_rows,
    sought_rows,
    study_rows,
)
from tests.docs.pages import ROOT


def attacked(read):
    """The rows of the tables of docs/attack.md."""
    found = read("attack")
    yield from attack_rows(found["attacks"])
    yield from equal_rows(found["equal time"])
    yield from rate_rows(found["rates"])
    yield from study_rows(read("adversarial")["cells"])
    asked = json.loads((DATA / "attacked.json").read_text())
    yield from kernel_rows(asked)
    yield from sought_rows(asked, read_indexed(SHIPPED))


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


CHANGED = [
    ("docs/attack.md", "adversarial", lambda data: data["cells"][0].update(worst=7.77)),
    ("docs/attack.md", "attack", lambda data: data["rates"][0].update(per_second=7)),
    ("docs/attack.md", "attack", lambda data: data["attacks"][0]["seeds"].update(median=0.001)),
    ("docs/evidence.md", "false_positives_bundled", lambda data: data.update(cases=1727)),
    ("docs/mathematics.md", "residuals", lambda data: data["published"][0].update(published=9e-3)),
]


@pytest.mark.parametrize(("page", "name", "change"), CHANGED)
def test_a_page_that_parted_from_its_record_is_noticed(page, name, change):
    data = copy.deepcopy(recorded(name))
    change(data)
    assert missing(page, lambda asked: data if asked == name else recorded(asked))
