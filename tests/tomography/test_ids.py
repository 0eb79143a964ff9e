"""A call of tomography is a case like others: its id alone gives the inputs back."""

from __future__ import annotations

import numpy as np
import pytest

from dmverify.conformance.families import generate, parse_case_id
from dmverify.conformance.families.generate import problem_of
from dmverify.conformance.families.tomography.designs import design
from dmverify.conformance.families.tomography.setup import FORMS, Setup
from dmverify.errors import InputError

SMALL = {"batch": 1, "heads": 2, "kv_heads": 1, "length": 64, "spread": 1.5}
LAST = str(parse_case_id(design(Setup(**SMALL), "article", offset=-0.3)[-1].case.id))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset", [4.0, -0.3])
def test_an_id_gives_the_inputs_of_its_call(form, offset):
    setup = Setup(form=form, offsets=(offset,), seed=3, **SMALL)
    calls = design(setup, "article", offset=offset)
    for call in (calls[0], calls[-1]):
        again = generate(call.case.id, contract="article")
        assert (again.id, again.problem) == (call.case.id, call.case.problem)
        assert problem_of(call.case.id) == call.case.problem
        for (name, x), (_, y) in zip(call.case.inputs.items(), again.inputs.items(), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=name)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("groups-7-", "groups-8-", "has 8 calls"),
        ("spread-1.5", "spread-1.50", "one name"),
        ("spread-1.5", "spread-wide", "are numbers"),
        ("spread-1.5", "spread-0", "spread is positive"),
        ("groups-7-", "columns-7-", "forms are"),
        ("keys=64", "keys=65", "one name"),
        (",causal=1", "", "every size"),
        (",causal=1", ",causal=1,softmax_scale=2.0", "one name"),
    ],
)
def test_another_id_is_refused(old, new, rule):
    assert old in LAST
    with pytest.raises(InputError, match=rule):
        generate(LAST.replace(old, new), contract="article")
