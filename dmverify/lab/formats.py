"""Kernels of the formats that contracts state: the steps in float32, as library calls order them.

Each feature of ``FEATURES`` is a contract that differs from a named one in a format, a scale or a
store. What computes them shares its steps with the enclosures and nothing of their arithmetic, so
an alarm is a fault of an interval. Kernels that share neither are in ``examples``.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.spec.arithmetic import Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Outputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import Provenance
from dmverify.spec.scaling import get_rule

_ROWS = "article:centre_k=none"
_WHOLE = f"{_ROWS},q_block=whole,k_block=whole,v_block=whole,do_block=whole"
_ONLINE = "flash-3-fp8:gradients=false,scale_span=head"
FEATURES = MappingProxyType(
    {
        "E5M2 dS": "article:ds_format=e5m2",
        "E5M2 dO and static dS": f"{_ROWS},do_format=e5m2,ds_format=e5m2,ds_scale=256",
        "static dS that saturates": f"{_ROWS},ds_format=e5m2,ds_scale=256,saturate=true",
        "static P": f"{_ROWS},p_scale=448,store=fp32",
        "INT8 and BF16 operands": "article:q_format=int8,k_format=int8,do_format=bf16",
        "channels of V": f"{_ROWS},v_scales=channels,store=fp32",
        "scales of 1": f"{_ROWS},operand_rule=unit",
        "one scale a tensor": f"{_WHOLE},scale_span=call",
        "one scale a group": f"{_WHOLE},scale_span=group,operand_rule=amax-clamped",
        "FP16 outputs": "article:store=fp16",
        "float32 outputs": "article:store=fp32",
        "E4M3 outputs": "article:store=e4m3,delta=consistent",
        "INT8 QK, FP8 PV": f"{_ONLINE},q_format=int8,k_format=int8,q_block=128,k_block=64,"
        "centre_k=mean,v_scales=channels,p_scale=448,store=fp16",
        "FP8 cache": f"{_ONLINE},q_format=bf16,p=bf16,operand_rule=unit",
        "E5M2 a call": "cudnn-fp8:ds_format=e5m2,do_format=e5m2,p_scale=448",
        "codes given": f"{_ROWS},operand_rule=given,q_format=bf16",
    }
)
"""Contracts by what they differ in."""


class Steps:
    """See ``dmverify.conformance.adapter.Kernel``."""

    contract = FEATURES["E5M2 dS"]
    contracts = tuple(get_contract(name).name for name in FEATURES.values())

    @property
    def info(self) -> Provenance:
        """Its name."""
        return Provenance(kernel="steps in float32")

    def supports(self, case: Case) -> Support:
        """The contracts of ``FEATURES``, on numbers that their scale rules take."""
        if case.contract not in self.contracts:
            return Unsupported(f"{case.contract} is none of its contracts")
        rule = get_rule(get_contract(case.contract).operand_rule)
        finite = all(np.isfinite(x).all() for _, x in case.inputs.items())
        served = finite or not rule.finite_only
        return Supported() if served else Unsupported(f"{rule.name} takes finite numbers")

    def forward(self, case: Case) -> Forward:
        """O and LSE."""
        found = self.backward(case)
        return Forward(found.o, found.lse)

    def backward(self, case: Case) -> Outputs:
        """Every output that the contract has."""
        contract = get_contract(case.contract)
        return interpret(contract, case.problem, case.inputs, Single()).outputs
