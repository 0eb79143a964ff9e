"""The peers' contracts in every interpretation: exact, bits, float32, and what refuses them."""

from __future__ import annotations

import numpy as np
import pytest

from dmverify.conformance.families.generate import generate
from dmverify.errors import ContractError
from dmverify.spec.arithmetic import Bits, Exact
from dmverify.spec.arithmetic.floating import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.run import OPERANDS
from dmverify.spec.contracts import CONTRACTS, get_contract
from tests.lab.third_party import fakes

NAMES = tuple(name for name, contract in CONTRACTS.items() if contract.schedule.kind == "online")
SMALL = "gaussian/spread-1,batch=1,heads=2,kv_heads=1,queries=5,keys=7,head_dim=32@0"


@pytest.mark.parametrize("name", NAMES)
def test_exact_reals_agree_with_float64(name: str) -> None:
    case = generate(SMALL, contract=name)
    stated = get_contract(name)
    want = interpret(stated, case.problem, case.inputs, Exact(OPERANDS))
    got = interpret(stated, case.problem, case.inputs, Double(OPERANDS))
    for output, (low, high) in want.ends.items():
        near = 1e-12 * max(np.abs(got.values[output][np.isfinite(got.values[output])]).max(), 1)
        live = np.isfinite(low)
        assert (got.values[output][live] >= low[live] - near).all()
        assert (got.values[output][live] <= high[live] + near).all()


@pytest.mark.parametrize("name", NAMES)
def test_without_casts_it_is_ordinary_attention(name: str) -> None:
    case = generate(SMALL, contract=name)
    run = interpret(get_contract(name), case.problem, case.inputs, Double())
    import torch

    heads_first = (torch.from_numpy(x).double().transpose(1, 2) for _, x in case.inputs.items())
    q, k, v, _ = heads_first
    options = {"scale": case.problem.scale, "causal": True, "corner": "bottom right"}
    _, o, lse = fakes.attention(q, k, v, **options)  # type: ignore[arg-type]
    np.testing.assert_allclose(run.values["o"], o.transpose(1, 2).numpy(), atol=1e-12)
    np.testing.assert_allclose(run.values["lse"], lse.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_float32_stores_in_the_contracts_format(name: str) -> None:
    case = generate(SMALL, contract=name)
    run = interpret(get_contract(name), case.problem, case.inputs, Single())
    bits = {"bf16": 8, "call-exponent": 4}[get_contract(name).store]
    for output in ("o", "dq", "dk", "dv"):
        mantissa = np.frexp(getattr(run.outputs, output).astype(np.float64))[0]
        assert (mantissa * 2.0**bits % 1 == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_not_defined(name: str) -> None:
    case = generate(SMALL, contract=name)
    with pytest.raises(ContractError, match="every order"):
        interpret(get_contract(name), case.problem, case.inputs, Bits())
