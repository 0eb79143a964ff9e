"""The peers' contracts: a simulation is inside their enclosures, wrong ones are outside."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
import torch

from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.families.generate import generate
from dmverify.conformance.verdict import Finding
from dmverify.lab.third_party.kernels.codes import coded_inputs
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math
from dmverify.lab.third_party.outside import outside
from dmverify.spec.attention.run import call_exponents
from dmverify.spec.case import F32, Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.bands import exact_band
from dmverify.spec.formats import BF16, E4M3
from tests.lab.third_party.online import Online, backward, forward

INPUTS = (
    "gaussian/spread-1",
    "gaussian/spread-4",
    "gaussian/spread-16",
    "offset/v-4",
    "rows/rising",
    "logit-size/logits-1e3",
    "zero-blocks/all-do",
)
CONTRACTS = MappingProxyType({"bf16-flash": "bf16", "flash-3-fp8": "e4m3", "cudnn-fp8": "e4m3"})


def asked(variant: str, contract: str, *, n: int = 160, m: int = 160, causal: int = 1) -> Case:
    sizes = f"batch=1,heads=1,kv_heads=1,queries={n},keys={m},head_dim=64,causal={causal}"
    return generate(f"{variant},{sizes}@0", contract=contract)


def simulated(case: Case, how: Online) -> dict[str, F32]:
    """A kernel of the case's contract."""
    stated = get_contract(case.contract)
    if stated.schedule.operands == "bf16":
        wide = {name: x[0, :, 0] for name, x in case.inputs.items()}
    else:
        coded = coded_inputs(case, case.contract)
        wide = {name: x.exact()[0, :, 0].astype(np.float32) for name, x in coded.items()}
    q, k, v, do = (torch.from_numpy(np.ascontiguousarray(x)) for x in wide.values())
    options = {"scale": case.problem.scale, "causal": case.problem.causal, "how": how}
    o32, lse = forward(q, k, v, **options)  # type: ignore[arg-type]
    exponents = {}
    if stated.store == "call-exponent":
        exponents = call_exponents(stated, case.problem, case.inputs)
    o = store(o32, exponents.get("o"))
    found = {"o": o[None, :, None], "lse": lse.numpy()[None, None]}
    if case.contract == "flash-3-fp8":
        return found
    units = {name: 2.0**x for name, x in exponents.items()}
    grads = backward(q, k, v, do, torch.from_numpy(o), lse, units=units, **options)  # type: ignore[arg-type]
    return found | {n: store(x, exponents.get(n))[None, :, None] for n, x in grads.items()}


def store(x: torch.Tensor, exponent: int | None) -> F32:
    wide: F32 = x.numpy()
    if exponent is None:
        return BF16.round(wide, saturate=False)
    return E4M3.round(wide * np.float32(2.0**exponent), saturate=True) * np.float32(2.0**-exponent)


def worst(case: Case, got: dict[str, F32]) -> dict[str, float]:
    bands = enclosure(get_contract(case.contract), case.problem, case.inputs, given=got)
    return {name: judge(bands[name], x).margin for name, x in got.items()}


def judge(band: Band, got: F32) -> Finding:
    """What the suite says of an output by its band."""
    return judge_band("o", "case", got, band)


def first_order(contract: str) -> bool:
    return contract == "cudnn-fp8"


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("variant", INPUTS)
@pytest.mark.parametrize("tile", [32, 128])
def test_a_conforming_kernel_is_inside(contract: str, variant: str, tile: int) -> None:
    for scale_first in {True, contract == "cudnn-fp8"}:
        how = Online(tile=tile, p=CONTRACTS[contract], scale_first=scale_first)
        case = asked(variant, contract)
        margins = worst(case, simulated(case, how))
        assert max(margins.values()) <= 1, margins


@pytest.mark.parametrize("contract", CONTRACTS)
def test_unequal_lengths_and_dead_rows(contract: str) -> None:
    for n, m, causal in ((40, 100, 1), (100, 40, 1), (100, 40, 0)):
        case = asked("gaussian/spread-2", contract, n=n, m=m, causal=causal)
        how = Online(p=CONTRACTS[contract], scale_first=first_order(contract))
        margins = worst(case, simulated(case, how))
        assert max(margins.values()) <= 1, (n, m, margins)


CAUGHT_FORWARD = ("last tile dropped", "no rescale of O", "P in E5M2", "top-left mask")
CAUGHT_BACKWARD = (
    "scale twice in dK",
    "delta of the row above",
    "delta zero",
    "dS not rounded to nearest",
)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("wrong", [*CAUGHT_FORWARD, *CAUGHT_BACKWARD])
def test_a_wrong_kernel_is_outside(contract: str, wrong: str) -> None:
    if contract == "flash-3-fp8" and wrong in CAUGHT_BACKWARD:
        pytest.skip("a forward only")
    how = Online(p=CONTRACTS[contract], scale_first=first_order(contract), wrong=wrong)
    variant = "rows/rising" if wrong == "no rescale of O" else "gaussian/spread-1"
    n = 100 if wrong == "top-left mask" else 160
    case = asked(variant, contract, n=n)
    assert max(worst(case, simulated(case, how)).values()) > 1


def grouped(part: torch.dtype) -> tuple[Case, dict[str, F32]]:
    """Three query heads of one key head, whose parts of dK and dV are rounded and then added."""
    sizes = "batch=1,heads=3,kv_heads=1,queries=96,keys=96,head_dim=64"
    case = generate(f"gaussian/spread-2,{sizes}@0", contract="bf16-flash")
    q, k, v, do = (torch.from_numpy(x[0].swapaxes(0, 1).copy()) for _, x in case.inputs.items())
    options = {"scale": case.problem.scale, "causal": case.problem.causal, "how": Online()}
    rows: dict[str, list[F32]] = {"o": [], "lse": [], "dq": []}
    tokens = {"dk": torch.zeros(96, 64), "dv": torch.zeros(96, 64)}
    for h in range(3):
        o32, lse = forward(q[h], k[0], v[0], **options)  # type: ignore[arg-type]
        o = store(o32, None)
        operands = (q[h], k[0], v[0], do[h], torch.from_numpy(o), lse)
        grads = backward(*operands, units={}, **options)  # type: ignore[arg-type]
        for name, x in {"o": o, "lse": lse.numpy(), "dq": store(grads["dq"], None)}.items():
            rows[name].append(x)
        for name in tokens:
            tokens[name] += grads[name].to(part).float()
    found = {name: np.stack(x)[None] for name, x in rows.items()}
    found |= {name: found[name].swapaxes(1, 2) for name in ("o", "dq")}
    return case, found | {name: store(x, None)[None, :, None] for name, x in tokens.items()}


def test_parts_of_query_heads_may_be_rounded_to_bf16_and_no_further() -> None:
    for part, inside in ((torch.float32, True), (torch.bfloat16, True), (torch.float8_e5m2, False)):
        case, got = grouped(part)
        margins = worst(case, got)
        assert max(margins[x] for x in ("o", "lse", "dq")) <= 1
        assert (max(margins["dk"], margins["dv"]) <= 1) is inside, (part, margins)


@pytest.mark.parametrize(("below", "inside"), [(0.0, True), (2.0**-126, True), (2.0**-80, False)])
def test_subnormal_p_may_be_flushed_and_no_larger_one(below: float, inside: bool) -> None:
    case = asked("gaussian/spread-64", "bf16-flash", n=128, m=128)
    got = simulated(case, Online())
    q, k, _, do = (torch.from_numpy(x[0, :, 0].copy()) for _, x in case.inputs.items())
    hidden = torch.from_numpy(~case.problem.mask())
    scores = (q @ k.T * case.problem.scale).masked_fill(hidden, -torch.inf)
    p = torch.exp(scores - torch.from_numpy(got["lse"])[0, 0, :, None]).bfloat16().float()
    assert ((p > 0) & (p < 2.0**-80)).any()
    kept = torch.where(p < below, torch.zeros(()), p)
    dv = store(kept.T @ do, None)[None, :, None]
    assert (worst(case, got | {"dv": dv})["dv"] <= 1) is inside


def test_torchs_composite_operator_is_inside() -> None:
    peer = torch_math()
    for variant in INPUTS:
        case = asked(variant, peer.contract)
        out = peer.backward(case)
        got = {name: x for name, x in out.items() if name != "delta"}
        assert max(worst(case, got).values()) <= 1, variant


def test_a_delta_that_is_not_summed_is_outside_of_bf16_math() -> None:
    case = asked("offset/v-4", "bf16-flash")
    got = simulated(case, Online())
    bands = enclosure(get_contract("bf16-math"), case.problem, case.inputs, given=got)
    assert judge(bands["dk"], got["dk"]).margin > 1


def test_there_is_one_rule_of_margins() -> None:
    """NaN, infinities and open elements too: a peer is judged as any kernel is."""
    due = np.array([[[np.nan, 1.0, -np.inf, 2.0]]], np.float32)
    band = exact_band(due)
    assert judge(band, due).margin == 0
    assert outside(band, due) == {}
    for at, value in ((0, 0.0), (1, np.nan), (2, -1e38), (3, np.inf)):
        got = due.copy()
        got[0, 0, at] = value
        found = judge(band, got)
        assert found.worst is not None
        assert (found.margin, found.worst.index) == (np.inf, (0, 0, at))
        assert outside(band, got)["elements"] == 1
    may = replace(band, may_nan=np.ones_like(band.may_nan), hi=np.full_like(band.hi, np.inf))
    found = judge(may, np.where(np.isnan(due), due, np.float32(7)))
    assert (found.margin, found.judged - found.open) == (0.0, 1)
