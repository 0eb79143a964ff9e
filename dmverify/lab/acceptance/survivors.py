"""Stage ``poison``: of the bytes that kernels read, none is left unwritten by a kernel.

Buffers are filled with 0xFF before each call, and looked at afterwards. No code, scale, statistic
or sum of finite tensors has these bytes, so what is left of them was never written. This is what
initcheck cannot say, since it does not see bulk stores.
"""

from __future__ import annotations

from typing import Any

import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place
from dmverify.kernel.stripes import RECORD
from dmverify.lab.acceptance.poison import POISON, poisoned
from dmverify.lab.acceptance.session import Session
from dmverify.lab.acceptance.small import CONTRACTS

SIZES = (
    "queries=129,keys=193,causal=1",
    "queries=256,keys=384,causal=0",
    "queries=1,keys=65,causal=0",
    "queries=300,keys=130,causal=1",
)
TILE = 64


def run(session: Session) -> dict[str, Any]:
    """Every head dim, kind of mode and size: what was left, by buffer."""
    wrong: list[dict[str, Any]] = []
    buffers = 0
    for d in (64, 128, 256):
        for contract in CONTRACTS:
            for size in SIZES:
                name = f"gaussian/spread-2,heads=2,kv_heads=1,{size},head_dim={d}@0"
                case = generate(name, contract=contract)
                kept: list[torch.Tensor] = []
                with poisoned(kept.append):
                    launch(place(case), options_of(case, Choices()))
                left = {f"{i} {tuple(x.shape)}": survivors(x) for i, x in enumerate(kept)}
                buffers += len(kept)
                if any(left.values()):
                    found = {key: count for key, count in left.items() if count}
                    wrong.append({"case": name, "contract": contract, "left": found})
    return {"ok": not wrong and not session.over, "buffers": buffers, "wrong": wrong}


def survivors(buffer: torch.Tensor) -> int:
    """Elements of a buffer with no byte written, of those that some kernel has to write."""
    if buffer.dim() == 2 and buffer.shape[-1] == RECORD:
        codes = buffer[:, : 2 * TILE * TILE]  # exponents that follow may well be -1
        return int((codes == POISON).sum())
    whole = buffer.view(torch.uint8).view(*buffer.shape, buffer.element_size())
    return int((whole == POISON).all(dim=-1).sum())
