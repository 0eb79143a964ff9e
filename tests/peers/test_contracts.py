"""The peers' contracts: a simulation is inside their enclosures, wrong ones are outside."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
import torch

from dmverify.conformance.families.generate import generate
from dmverify.conformance.kernels.peers.codes import coded_inputs
from dmverify.conformance.kernels.peers.torch_sdpa import torch_math
from dmverify.conformance.peers.margins import judge
from dmverify.spec.attention.interpret import call_exponents
from dmverify.spec.case import F32, Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16, E4M3
from tests.peers.online import Online, backward, forward

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
    if stated.operand_form == "bf16":
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
