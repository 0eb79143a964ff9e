"""FP8 operands for a peer, exactly as the specification's contract makes them.

Each input is quantised by ``dmverify.spec.scaling`` under the contract's rule, with one scale for
each head, for the query heads of a key head together, or for the whole tensor (``scale_span``). A
NaN or infinity is left out of the amax and becomes the NaN code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dmverify.spec.attention.operand_casts import spanned
from dmverify.spec.case import F32, F64, U8, Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import E4M3
from dmverify.spec.scaling import quantise

NAN_CODE = np.uint8(0x7F)


@dataclass(frozen=True)
class Coded:
    """One operand.

    Attributes:
        codes: (B, N, H, D) uint8.
        scales: (B, Hs) float32; Hs is H, Hkv or 1, and B is 1 where one scale serves the call.
    """

    codes: U8
    scales: F32

    def tensor(self, device: str) -> Tensor:
        """The codes as torch's float8_e4m3fn."""
        return torch.from_numpy(self.codes).to(device).view(torch.float8_e4m3fn)

    def exact(self) -> F64:
        """Codes times scale, (B, N, H, D)."""
        values = E4M3.decode(self.codes).astype(np.float64)
        per_head = values.shape[2] // self.scales.shape[1]
        scales: F64 = np.repeat(self.scales, per_head, 1).astype(np.float64)[:, None, :, None]
        product: F64 = values * scales
        return product


def coded_inputs(case: Case, contract: str) -> dict[str, Coded]:
    """q, k, v and do of a case."""
    stated = get_contract(contract)
    found = {}
    for name, x in case.inputs.items():
        usable = np.isfinite(x)
        kept = np.ascontiguousarray(np.where(usable, x, np.float32(0)).swapaxes(1, 2))
        view = spanned(kept, stated.scale_span, case.problem.kv_heads)
        made = quantise(view, stated.operand_rule, block=None)
        codes = made.codes.reshape(kept.shape).swapaxes(1, 2)
        codes = np.where(usable, codes, NAN_CODE)
        found[name] = Coded(np.ascontiguousarray(codes), made.scales[..., 0, 0])
    return found
