"""Kernels whose formats differ from the article's, each judged by the contract in its file."""

from dataclasses import replace

import numpy as np
import pytest
from int8_qk_fp8_pv import BaseTwo, Sage, WithoutScale
from kv_cache_decode import Decode, LastKeyLost, OtherHead, TopLeft

import dmverify
from dmverify.conformance.causes import likely_causes

torch = pytest.importorskip("torch")

from per_tensor_training import ScaleLost, StaleDelta, Training  # noqa: E402 - it needs torch

WHOLE = [
    "gaussian/spread-1@0",
    "lengths/q129-k17@0",  # dead rows: queries that see no key
    "lengths/no-keys@0",
    "lengths/no-batch@0",
    "gaussian/spread-4,heads=4,kv_heads=2,queries=150,keys=140,causal=0@0",
    "outliers/channels@0",
    "distinct-scales/powers-of-two@0",
    "offset/v-4@0",
    # Below float32's normal numbers it shows that heads are scaled before they are added.
    "tiny-amax/q-2^-133,batch=1,heads=4,kv_heads=2,queries=70,keys=71,head_dim=64,causal=1@0",
]
STEPS = [
    "lengths/q1-k129@0",
    "lengths/q5-k577@0",
    "gaussian/spread-1,queries=1,keys=700,heads=4,kv_heads=2@0",
    "gaussian/spread-4,queries=16,keys=140,heads=4,kv_heads=2@0",
    "distinct-scales/thirds,queries=4,heads=4,kv_heads=2@0",
]


@pytest.mark.parametrize(
    ("kernel", "cases", "outputs"),
    [(Sage, WHOLE, {"o", "lse"}), (Decode, STEPS, {"o", "lse"}), (Training, WHOLE, {"dq", "dk"})],
)
def test_conforms(kernel, cases, outputs):
    report = dmverify.verify(kernel(), cases=cases)
    assert report.ok, report.to_junit()
    assert all(0 < report.margin[name] <= 1 for name in outputs)


@pytest.mark.parametrize(
    ("kernel", "cases", "cause", "kept"),
    [
        (BaseTwo, WHOLE, "lse-base", "o"),
        (WithoutScale, WHOLE, "v-scale", "lse"),
        (OtherHead, STEPS, "gqa", "nan"),
        (TopLeft, STEPS, "mask", "nan"),
        (LastKeyLost, STEPS, "mask", "nan"),
        (StaleDelta, WHOLE, "stale-delta", "dv"),
        (ScaleLost, WHOLE, "dk-softmax-scale", "dq"),
    ],
)
def test_a_wrong_version_fails_and_the_cause_is_named_first(kernel, cases, cause, kept):
    report = dmverify.verify(kernel(), cases=cases)
    assert not report.ok
    assert report.margin[kept] <= 1
    assert likely_causes(report.findings)[0].id == cause


def test_a_lost_last_key_is_told_by_its_weight_and_a_scale_that_is_off_is_not():
    """A key's scale a hundredth too large moves every LSE too; no key's weight explains that."""
    report = dmverify.verify(LastKeyLost(), cases=STEPS)
    told = {
        trait.name
        for finding in report.findings
        if finding.check == "lse"
        for trait in finding.pattern.traits
        if trait.kind == "without-key"
    }
    assert told == {"the last key"}
    assert likely_causes(report.findings)[0].words.endswith("; LSE is what it is without a key")
    assert "what is due without the last key" in report.to_junit()

    class Off(Decode):
        def attend(self, case):
            scale = case.problem.scale * 1.01
            return super().attend(replace(case, problem=replace(case.problem, softmax_scale=scale)))

    found = dmverify.verify(Off(), cases=STEPS).findings
    assert not any(
        trait.kind == "without-key"
        for finding in found
        if finding.check == "lse" and finding.pattern
        for trait in finding.pattern.traits
    )


class ScaleOfOne(Sage):
    """Wrong: the softmax scale is left out."""

    def attend(self, case):
        return super().attend(replace(case, problem=replace(case.problem, softmax_scale=1.0)))


class OtherFactor(Sage):
    """Wrong: V's scales stand for codes of P that are 256 P."""

    def channel_scales(self, scales):
        return scales * 448 / 256


class ValuesTurned(Sage):
    """Wrong: V is read one key later."""

    def attend(self, case):
        v = np.roll(case.inputs.v, 1, axis=1)
        return super().attend(replace(case, inputs=replace(case.inputs, v=v)))


@pytest.mark.parametrize(
    ("kernel", "cause"),
    [(ScaleOfOne, "qk-scale"), (OtherFactor, "factor"), (ValuesTurned, "v-order")],
)
def test_of_a_forward_pass_alone_the_cause_is_among_the_first_three(kernel, cause):
    report = dmverify.verify(kernel(), cases=WHOLE)
    assert not report.ok
    assert cause in {found.id for found in likely_causes(report.findings)}


def test_a_contract_without_gradients_asks_for_none():
    report = dmverify.verify(Sage(), cases=["gaussian/spread-1@0"])
    reasons = {f.reason for f in report.findings if f.check in ("dq", "dk", "dv")}
    assert reasons == {"the contract has no backward pass"}
