"""Variants for formats and scales beyond E4M3 by amax: each shows a fault that plain data hides.

A kernel here is the steps in float32 under a contract, wrong in one place where the contract's own
format, scale or saturation decides.
"""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from dmverify import verify
from dmverify.conformance.families import FAMILIES
from dmverify.conformance.selection import OF_SOME, select_pairs
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError
from dmverify.lab import formats
from dmverify.lab.formats import FEATURES, Steps
from dmverify.lab.mutants.emulator.altered import altered
from dmverify.spec.arithmetic import Single
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import BF16

NEXT = np.float32(1 + 2.0**-7)
"""From a number of BF16 to the next: a point between two codes rounds away from zero then."""
LEAST = 2.0**-14  # E5M2's smallest normal number
GRADIENT = FEATURES["E5M2 dO and static dS"]
SATURATES = FEATURES["static dS that saturates"]
INFINITE = SATURATES.replace("saturate=true", "saturate=false")
INTEGERS = FEATURES["INT8 and BF16 operands"]
PLAIN = "gaussian/spread-1@0"


def on_inputs(**changes):
    """A kernel that sees other tensors than it was given."""

    class Wrong(Steps):
        def backward(self, case):
            found = {name: change(getattr(case.inputs, name)) for name, change in changes.items()}
            return super().backward(replace(case, inputs=replace(case.inputs, **found)))

    return Wrong


def on_contract(name):
    """A kernel that keeps another contract."""

    class Wrong(Steps):
        def backward(self, case):
            with patch.object(formats, "get_contract", lambda _: get_contract(name)):
                return super().backward(case)

    return Wrong


def flushing_ds():
    """A kernel whose cast of dS has no subnormals."""

    def cast(base, x, fmt, *, site, saturate):
        kept = np.where((np.abs(x) < LEAST) & (site == "ds"), np.float32(0), x)
        return base.cast(kept, fmt, site=site, saturate=saturate)

    class Wrong(Steps):
        def backward(self, case):
            with patch.object(formats, "Single", lambda: altered(Single(), cast=cast)):
                return super().backward(case)

    return Wrong


def away(x):
    """All but the largest, which decide the scale."""
    return np.where(np.abs(x) < np.abs(x).max(), BF16.round(x * NEXT), x)


def flushed(x):
    """Without what an E5M2 cast by amax makes subnormal."""
    amax = np.abs(x).max((1, 3), keepdims=True)
    return np.where(np.abs(x) < amax * np.float32(LEAST / 57344), np.float32(0), x)


def nan_beyond(x):
    return np.where(np.abs(x) > 464, np.float32(np.nan), x)


FAULTS = {
    "ties of dO away from zero": (
        GRADIENT, "rounding/e5m2-ties@0", on_inputs(do=away), {"dq", "dv"},
    ),
    "subnormals of dO flushed": (
        GRADIENT, "rounding/e5m2-subnormals@0", on_inputs(do=flushed), {"dv"},
    ),
    "subnormals of dS flushed": (GRADIENT, "tiny-amax/do-falls@0", flushing_ds(), {"dq"}),
    "dS is infinite where it saturates": (
        SATURATES, "tiny-amax/do-falls@0", on_contract(INFINITE), {"dq", "dk"},
    ),
    "ties of INT8 away from zero": (
        INTEGERS, "rounding/int8-ties@0", on_inputs(q=away, k=away), {"lse"},
    ),
    "NaN where a scale of 1 saturates": (
        FEATURES["scales of 1"], "rounding/beyond@0", on_inputs(v=nan_beyond), {"o"},
    ),
    "one scale for a block of V": (
        FEATURES["channels of V"],
        "distinct-scales/v-channels@0",
        on_contract("article:centre_k=none,store=fp32"),
        {"o"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_variant_shows_a_fault_of_its_format(fault):
    contract, case, wrong, outputs = FAULTS[fault]
    name = get_contract(contract).name
    right, bad = (type(k.__name__, (k,), {"contract": name})() for k in (Steps, wrong))
    checks = sorted({"o", "lse", "dq", "dv"} | outputs)
    assert verify(right, cases=[case], checks=checks).ok
    report = verify(bad, cases=[case], checks=checks)
    assert not [found for found in report.findings if found.verdict is Verdict.ERROR]
    assert {found.check for found in report.findings if found.verdict is Verdict.FAILS} >= outputs


HIDDEN = (
    "subnormals of dO flushed",
    "subnormals of dS flushed",
    "dS is infinite where it saturates",
    "NaN where a scale of 1 saturates",
)
"""Ties and scales of channels are met everywhere."""


@pytest.mark.parametrize("fault", HIDDEN)
def test_plain_data_hide_it(fault):
    contract, _, wrong, _ = FAULTS[fault]
    kernel = type("Kernel", (wrong,), {"contract": get_contract(contract).name})
    assert verify(kernel(), cases=[PLAIN], checks=["o", "lse", "dq", "dk", "dv"]).ok


@pytest.mark.parametrize(
    ("contract", "asked"),
    [("article", False), ("bundled", False), ("cudnn-fp8", False), (GRADIENT, True)],
)
def test_levels_ask_contracts_with_other_formats_alone(contract, asked):
    stems = {case.partition("@")[0].partition(",")[0]
             for case, _ in select_pairs("smoke", (contract,), seed=0)}  # fmt: skip
    own = {
        f"{name}/{variant}"
        for name, family in FAMILIES.items()
        for variant in family.variants
        if "other-formats" in family.flags_of(variant)
    }
    assert len(own) == 6
    assert (own <= stems) is asked
    assert own.isdisjoint(stems) is not asked


def test_a_flag_of_some_is_one_of_the_flags():
    used = {f for one in FAMILIES.values() for v in one.variants for f in one.flags_of(v)}
    assert set(OF_SOME) <= used
    with pytest.raises(InputError):
        select_pairs("smoke", (), seed=0)
