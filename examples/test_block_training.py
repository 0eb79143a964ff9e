"""The kernels of ``block_training``, judged by the contract in its file."""

import pytest
from block_training import NeighbourScale, ScaleLost, Training

import dmverify
from dmverify.conformance.causes import likely_causes

CASES = [
    "gaussian/spread-1@0",
    "lengths/q129-k17@0",  # dead rows: queries that see no key
    "gaussian/spread-4,heads=4,kv_heads=2,queries=150,keys=140,causal=0@0",
    "outliers/channels@0",
    "distinct-scales/powers-of-two@0",
    "distinct-scales/thirds@0",
    "distinct-scales/wide@0",
]


@pytest.mark.parametrize("case", CASES)
def test_conforms(case):
    report = dmverify.verify(Training(), cases=[case])
    assert report.ok, report.to_junit()
    assert 0 < report.margin["dk"] <= 1


@pytest.mark.parametrize(
    ("kernel", "cause", "kept"),
    [(NeighbourScale, "block-scale-v", "lse"), (ScaleLost, "dk-softmax-scale", "dq")],
)
def test_a_wrong_version_fails_and_the_cause_is_named_first(kernel, cause, kept):
    report = dmverify.verify(kernel(), cases=CASES)
    assert not report.ok
    assert report.margin[kept] <= 1
    assert likely_causes(report.findings)[0].id == cause
