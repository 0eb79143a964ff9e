"""Judged part by part: the same findings, and no band that is there whole."""

import numpy as np
import pytest

import dmverify
from dmverify.conformance import references, sizes
from dmverify.conformance.adapter import Forward
from dmverify.conformance.checks.judgement import bands_at, positions
from dmverify.conformance.events import CheckDone
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.verdict import Verdict
from dmverify.lab.mutants.numeric import doubled
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math
from dmverify.spec.attention.parts import BLOCK
from dmverify.spec.enclosure import enclose, enclosure

LONG = f"gaussian/spread-2,batch=1,heads=2,kv_heads=1,queries={5 * BLOCK},keys=450,head_dim=32@0"
CASES = (
    LONG,
    "gaussian/spread-64,batch=3,heads=4,kv_heads=2,queries=30,keys=40,head_dim=32@0",  # open
    "special/v-nan@0",
    "gaussian/spread-1,queries=200,keys=60,head_dim=32,causal=1@0",
)


@pytest.fixture
def in_parts(monkeypatch):
    """Every case is a large one."""
    monkeypatch.setattr(sizes, "LARGE", 0)
    monkeypatch.setattr(references, "AT_ONCE", 1000)


def findings(kernel, cases, **options):
    found = []
    listener = lambda event: isinstance(event, CheckDone) and found.append(event.finding)  # noqa: E731
    dmverify.verify(kernel, cases=cases, listener=listener, **options)
    return found


@pytest.mark.parametrize(
    ("kernel", "contract"),
    [(Simulation(), "article"), (doubled, "article"), (torch_math(), "bf16-math")],
    ids=["right", "wrong", "gradients-by-given-outputs"],
)
def test_parts_give_the_findings_of_the_whole(kernel, contract, monkeypatch):
    square = "gaussian/spread-2,heads=2,kv_heads=2,queries=70,keys=70,head_dim=32@0"
    cases = (square,) if contract == "bf16-math" else CASES
    whole = findings(kernel, cases, contract=contract)
    monkeypatch.setattr(sizes, "LARGE", 0)
    parts = findings(kernel, cases, contract=contract)
    assert len(whole) > 20 * len(cases)
    for one, other in zip(whole, parts, strict=True):
        assert repr(_plain(one)) == repr(_plain(other))


def _plain(finding):
    """Without what float64 sums in another order."""
    accuracy = finding.accuracy
    numbers = () if accuracy is None else (accuracy.attention.rms, accuracy.contract.rms)
    return (
        finding.check,
        finding.verdict,
        finding.margin,
        finding.worst,
        finding.judged,
        (
            finding.open,
            finding.reason,
            finding.pattern,
            finding.follows,
            [f"{x:.6g}" for x in numbers],
        ),
    )


def test_exact_bits_in_parts_too(in_parts):
    case = generate(CASES[1], contract="bundled")
    known = Evidence(case, None, None)
    found = {name: np.zeros(x.shape) for name, x in known.bits.items()}

    def take(part):
        assert part.band.lo.size <= 2000
        found[part.name][part.place] += part.band.lo

    known.each_band(take)
    for name, array in known.bits.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_band_is_never_there_whole(in_parts, monkeypatch):
    case = generate(LONG, contract="article")
    outputs = Simulation().backward(case)
    evidence = Evidence(case, Forward(outputs.o, outputs.lse), outputs)
    monkeypatch.setattr(Evidence, "bands", property(lambda self: pytest.fail("whole")))
    sizes_seen = []
    evidence.each_band(lambda part: sizes_seen.append(part.band.lo.size))
    assert max(sizes_seen) < outputs.o.size / 2
    assert sum(sizes_seen) == sum(array.size for _, array in outputs.items())


def test_a_part_that_is_left_out_is_seen(in_parts, monkeypatch):
    """What no band was given for was never judged, so the count of open elements is not all."""
    first = enclose._banded

    def wrong(part, x, due, store):
        return first(part, x, ~due if part.name == "o" else due, store)

    monkeypatch.setattr(enclose, "_banded", wrong)
    found = {f.check: f for f in findings(Simulation(), [CASES[0]], checks=["o", "nan"])}
    assert found["o"].verdict is Verdict.FAILS
    assert found["nan"].verdict is Verdict.FAILS


def test_the_bands_of_some_elements(in_parts):
    case = generate(CASES[1], contract="article")
    outputs = Simulation().backward(case)
    evidence = Evidence(case, Forward(outputs.o, outputs.lse), outputs)
    whole = enclosure(evidence.contract, case.problem, case.inputs)
    rng = np.random.default_rng(0)
    for name, band in whole.items():
        at = rng.permutation(band.lo.size)[:50]
        some = bands_at(evidence, name, at)
        for field, array in vars(some).items():
            np.testing.assert_array_equal(array, getattr(band, field).reshape(-1)[at])


def test_places_of_parts():
    array = np.arange(4 * 7 * 3 * 2).reshape(4, 7, 3, 2)
    two = np.array([3, 1])
    for place in (
        (...,),
        (slice(1, 3),),
        (slice(2, 3), slice(4, None)),
        (two, slice(2, 6), np.array([0, 2])),
        (two, np.array([5, 0]), slice(1, 3)),
    ):
        part = array[place]
        inside = tuple(i.ravel() for i in np.indices(part.shape))
        np.testing.assert_array_equal(array[positions(place, inside)], part.ravel())
