"""The levels: what smoke and full draw, and that a level without end is no list."""

import pytest

from dmverify.conformance.coverage.rows import frozen_rows
from dmverify.conformance.families import list_cases
from dmverify.conformance.questions import list_asked
from dmverify.conformance.selection import LEVELS, select, select_ids
from dmverify.errors import InputError, UnknownNameError


def test_smoke():
    ids = select_ids("smoke", seed=3)
    assert len(set(ids)) == len(ids)
    assert sum(text.startswith("capture/") for text in ids) >= 10
    rows = [row for found in frozen_rows().values() for row in found if row.smoke and row.seed]
    later = {row.case_id(3) for row in rows}  # rows that were full's, each with a seed of its own
    assert len(later) == 9
    assert later < set(ids)
    assert all(text.endswith(("@3", "@0")) for text in set(ids) - later)
    variants = {text.partition(",")[0].partition("@")[0] for text in ids}
    small = {text.partition("@")[0] for text in list_cases(seed=3)}
    left = {text for text in small - variants if not text.startswith("lengths/")}
    assert left == {
        *("distinct-scales/channels", "distinct-scales/channel-tops"),  # of MXFP8 alone
        *("distinct-scales/v-channels", "tiny-amax/do-falls"),  # of contracts with other formats
        *("rounding/e5m2-ties", "rounding/e5m2-subnormals", "rounding/int8-ties"),
        "rounding/beyond",
    }


def test_select_generates_what_select_ids_names():
    found = select("smoke", "article", seed=3)
    assert tuple(case.id for case in found) == select_ids("smoke", seed=3)
    assert {case.contract for case in found} == {"article"}


def test_full_has_every_variant_several_seeds_and_every_large_one_once_at_the_end():
    smoke, full = select_ids("smoke", seed=3), select_ids("full", seed=3)
    assert full[: len(smoke)] == smoke
    assert len(set(full)) == len(full)
    large = set(list_cases(seed=3, on_demand=True)) - set(list_cases(seed=3))
    assert set(full[-len(large) :]) == large
    assert {"long/n2048@3", "positive-v/keys-16k@3", "layout/far-rows@3"} <= large
    assert not {text.replace("@3", "@4") for text in large} & set(full)
    assert sum(text.startswith("lengths/n65@") for text in full) == 1
    seeds: dict[str, set[str]] = {}
    for text in full:
        seeds.setdefault(text.partition(",")[0].partition("@")[0], set()).add(text.split("@")[1])
    few = {name for name, found in seeds.items() if len(found) < 5}  # smoke's and four more
    once = ("lengths", "long", "counts", "capture")
    assert few == {x for x in few if x.startswith(once)} | {x.split("@")[0] for x in large}


@pytest.mark.parametrize("ask", [select_ids, lambda level, seed: list_asked(level=level)])
def test_a_level_without_end_is_no_list(ask):
    assert LEVELS["soak"].seeds is None
    with pytest.raises(InputError, match="has an end"):
        ask("soak", seed=0)


def test_an_unknown_level():
    with pytest.raises(UnknownNameError, match="did you mean smoke"):
        select("smok", "article", seed=0)
