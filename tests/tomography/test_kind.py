"""Which delta: right for every mode of honest kernels, undecided for liars and noise."""

from dataclasses import replace

import pytest

from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.errors import InputError
from dmverify.lab.mutants import numeric as wrong
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math
from tests.tomography.kernels import (
    UNCENTRED,
    Cached,
    Crash,
    FlashLike,
    Half,
    Misshapen,
    Nan,
    Narrow,
    NarrowInside,
    Noisy,
    Projected,
    Random,
    Uncentred,
)

SMALL = Setup(length=128, head_dim=32, runs=4, repeats=1)


@pytest.mark.parametrize(
    ("delta", "kind"),
    [
        ("stale", "stale"),
        ("consistent", "consistent"),
        ("matched", "matched"),
        ("renormalized", "matched"),
        ("shifted", "matched"),
    ],
)
def test_the_simulations_delta(delta, kind):
    found = tomograph("simulation", f"article:delta={delta}", setup=SMALL)
    assert (found.verdict, found.exit_code) == (kind, 0)
    assert found.decision.mode == kind


@pytest.mark.parametrize(
    ("delta", "kind"),
    [
        ("stale", "stale"),
        ("consistent", "consistent"),
        ("matched", "matched"),
        ("shifted", "matched"),
        ("associated", "matched"),
    ],
)
def test_the_emulators_delta(delta, kind):
    setup = replace(SMALL, offsets=(4.0,))
    found = tomograph("emulator", f"bundled:delta={delta}", setup=setup)
    assert (found.verdict, found.exit_code) == (kind, 0)


@pytest.mark.parametrize("delta", ["stale", "consistent"])
def test_an_e4m3_o_that_only_the_shortcut_reads(delta):
    found = tomograph(NarrowInside(), f"article:delta={delta}", setup=SMALL)
    assert (found.verdict, found.decision.mode) == (delta, f"{delta}, O in E4M3")


@pytest.mark.parametrize("delta", ["stale", "consistent", "matched"])
@pytest.mark.parametrize("unit", [1.0, 1.4])
def test_a_kernel_whose_outputs_are_fp8(delta, unit):
    found = tomograph(Narrow(unit=unit), f"article:delta={delta}", setup=replace(SMALL, runs=8))
    assert found.verdict == delta


@pytest.mark.parametrize("form", ["signs", "probe"])
@pytest.mark.parametrize("delta", ["stale", "consistent", "matched"])
def test_the_other_forms(form, delta):
    found = tomograph(Uncentred(), f"{UNCENTRED},delta={delta}", setup=replace(SMALL, form=form))
    assert found.verdict == delta


def test_a_stale_delta_under_a_matched_contract_is_reported():
    found = tomograph(wrong.Stale(), setup=SMALL)
    assert (found.verdict, found.promised, found.exit_code) == ("stale", "matched", 1)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (Half(), "no mode's coefficients"),
        (Projected(), "shapes of the rows do not"),
        (Cached(), "is not attention's"),
        (Random(), "is not attention's"),
        (Noisy(30.0), "is not attention's"),
        (wrong.zeros, "is not attention's"),
        (wrong.negated, "is not attention's"),
        (wrong.doubled, "is not attention's"),
        (wrong.RotatedHeads(), "is not attention's"),
        (Nan(), "NaN"),
        (Misshapen(), "shape"),
    ],
)
def test_liars_are_undecided(kernel, says):
    found = tomograph(kernel, "article:delta=stale", setup=SMALL)
    assert (found.verdict, found.exit_code) == ("undecided", 5)
    assert says in found.decision.reason


@pytest.mark.parametrize("delta", ["stale", "consistent", "matched"])
def test_noise_never_gives_a_wrong_kind(delta):
    for size in (0.3, 1.0):
        found = tomograph(Noisy(size), f"article:delta={delta}", setup=SMALL)
        assert found.verdict in (delta, "undecided"), size
    assert found.verdict == "undecided"


def test_a_projected_dk_is_seen_through_by_the_probe():
    both = type("Both", (Projected, Uncentred), {})()
    blind = tomograph(both, f"{UNCENTRED},delta=stale", setup=SMALL)
    assert blind.verdict == "undecided"
    probed = tomograph(both, f"{UNCENTRED},delta=stale", setup=replace(SMALL, form="probe"))
    assert probed.verdict == "stale"


def test_what_cannot_be_read_is_unsupported_or_an_error():
    centred = tomograph("simulation", setup=replace(SMALL, form="probe"))
    assert (centred.verdict, centred.exit_code) == ("unsupported", 5)
    assert "centring" in centred.decision.reason
    refused = tomograph("simulation", "bundled", setup=SMALL)
    assert refused.verdict == "unsupported"
    crashed = tomograph(Crash(), setup=SMALL)
    assert (crashed.verdict, crashed.exit_code) == ("error", 3)
    few = tomograph("simulation", setup=replace(SMALL, batch=1, heads=1, kv_heads=1))
    assert (few.verdict, "legible rows" in few.decision.reason) == ("undecided", True)


@pytest.mark.parametrize(
    "wrong_sizes",
    [{"form": "x"}, {"runs": 0}, {"spread": 0.0}, {"offsets": ()}, {"seed": -1}, {"heads": 3}],
)
def test_wrong_setups_are_refused(wrong_sizes):
    with pytest.raises(InputError):
        Setup(**wrong_sizes)


def test_nothing_is_stale_where_do_is_not_quantised():
    """BF16 dO is its own dO^, so <dO, O> is the consistent delta, and the verdict says so."""
    found = tomograph(FlashLike(), setup=replace(SMALL, head_dim=64))
    assert (found.verdict, found.decision.mode) == ("consistent", "consistent")
    matched = tomograph(torch_math(), setup=replace(SMALL, head_dim=64))
    assert (matched.verdict, matched.decision.mode) == ("matched", "matched")
