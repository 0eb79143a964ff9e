"""The levels: what smoke and full draw, and that a level without end is no list."""

import pytest

from dmverify.conformance.families import list_cases
from dmverify.conformance.selection import LEVELS, select, select_ids
from dmverify.conformance.three_steps import list_asked
from dmverify.errors import InputError, UnknownNameError


def test_smoke():
    smoke = select("smoke", "article", seed=3)
    ids = [case.id for case in smoke]
    assert tuple(ids) == select_ids("smoke", seed=3)
    assert len(set(ids)) == len(ids)
    assert {case.contract for case in smoke} == {"article"}
    assert sum(case.id.startswith("capture/") for case in smoke) >= 10
    assert all(case.id.endswith(("@3", "@0")) for case in smoke)
    assert max(case.problem.batch for case in smoke) == 3


def test_full_has_eight_seeds_and_every_large_variant_once_at_the_end():
    smoke, full = select_ids("smoke", seed=3), select_ids("full", seed=3)
    assert full[: len(smoke)] == smoke
    assert len(set(full)) == len(full)
    large = set(list_cases(seed=3, on_demand=True)) - set(list_cases(seed=3))
    assert set(full[-len(large) :]) == large
    assert {"long/n2048@3", "positive-v/keys-16k@3", "layout/far-rows@3"} <= large
    assert not {text.replace("@3", "@4") for text in large} & set(full)
    assert sum(text.startswith("lengths/n65@") for text in full) == 8


@pytest.mark.parametrize("ask", [select_ids, lambda level, seed: list_asked(level=level)])
def test_a_level_without_end_is_no_list(ask):
    assert LEVELS["soak"].seeds is None
    with pytest.raises(InputError, match="has an end"):
        ask("soak", seed=0)


def test_an_unknown_level():
    with pytest.raises(UnknownNameError, match="did you mean smoke"):
        select("smok", "article", seed=0)
