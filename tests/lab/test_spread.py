"""Runs in parts, tried at length: what the programs of the laboratory ask and say."""

from dmverify.conformance.families import FAMILIES, generate
from dmverify.lab.spread.cases import ORDINARY, TINY, cheap_cases


def test_cheap_cases_are_of_all_families_each_once_and_can_be_made():
    for shape in (TINY, ORDINARY):
        ids = cheap_cases(700, shape)
        assert len(set(ids)) == 700
        families = {one.partition("/")[0] for one in ids}
        assert len(families) > 0.8 * len(FAMILIES)
        for one in ids[::50]:
            assert generate(one).id == one
