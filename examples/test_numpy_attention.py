"""A kernel judged in a pytest suite of its own: one test a case, the report as the message.

From the checkout's root: ``python -m pytest examples``. A pattern such as ``lengths/*``, or
``level="smoke"`` instead of cases, asks more.
"""

import pytest
from numpy_attention import Attention, Shortcut

import dmverify

CASES = [
    "gaussian/spread-1@0",
    "lengths/q129-k17@0",  # dead rows: queries that see no key
    "lengths/n65@0",
    "gaussian/spread-4,heads=4,kv_heads=2,queries=33,keys=70,causal=0@0",
]


@pytest.mark.parametrize("case", CASES)
def test_conforms(case):
    report = dmverify.verify(Attention(), cases=[case])
    assert report.ok, report.to_junit()  # the element, the bound, and a line that repeats it
    assert 0 < report.margin["dq"] <= 1  # error / bound, of the worst element


def test_the_shortcut_is_found():
    """A test suite that cannot fail says nothing: a kernel that is wrong on purpose."""
    report = dmverify.verify(Shortcut(), cases=["gaussian/spread-1@0"])
    assert not report.ok
    assert report.margin["o"] <= 1 < report.margin["delta"]
