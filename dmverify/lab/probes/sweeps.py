"""Exhaustive sweeps over all 2^32 float32 inputs, hashed in blocks of 2^20 outputs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dmverify.errors import KernelError
from dmverify.lab.probes.blocks import BLOCK, DIGEST_BYTES, digest
from dmverify.lab.probes.device import Grid, functions, launch

_LAUNCH = 1 << 28
THREADS = 256  # of a block


@dataclass(frozen=True)
class Sweep:
    """One instruction of one operand.

    Attributes:
        ptx: PTX mnemonic.
        code_bits: Bits of an output.
    """

    ptx: str
    code_bits: int = 32

    @property
    def dtype(self) -> torch.dtype:
        """Tensor type that holds an output's bits."""
        return {8: torch.uint8, 16: torch.int16, 32: torch.int32}[self.code_bits]


SWEEPS: dict[str, Sweep] = {
    "ex2_ftz": Sweep("ex2.approx.ftz.f32"),
    "ex2": Sweep("ex2.approx.f32"),
    "lg2_ftz": Sweep("lg2.approx.ftz.f32"),
    "lg2": Sweep("lg2.approx.f32"),
    "rcp_ftz": Sweep("rcp.approx.ftz.f32"),
    "rcp": Sweep("rcp.approx.f32"),
    "rcp_rn": Sweep("rcp.rn.f32"),
    "sqrt_rn": Sweep("sqrt.rn.f32"),
    "cvt_e4m3": Sweep("cvt.rn.satfinite.e4m3x2.f32", 8),
    "cvt_e5m2": Sweep("cvt.rn.satfinite.e5m2x2.f32", 8),
    "cvt_bf16": Sweep("cvt.rn.bf16x2.f32", 16),
}


def outputs(name: str, base: int, count: int) -> torch.Tensor:
    """Output bits of a sweep for the inputs with bits base to base + count - 1, on the GPU.

    Raises:
        KernelError: The two lanes of a packed conversion disagree.
    """
    out = torch.empty(count, dtype=SWEEPS[name].dtype, device="cuda")
    disagree = torch.zeros(1, dtype=torch.int32, device="cuda")
    extra = [disagree] if SWEEPS[name].code_bits < 32 else []
    args = [np.uint32(base), out, *extra]
    launch(functions(), f"sweep_{name}", Grid(count // THREADS, THREADS), args)
    if disagree.item():
        raise KernelError(
            f"{name}: {disagree.item()} inputs from {base:#x}",
            rule="the two lanes of a packed conversion agree",
            fix="record the lanes apart",
        )
    return out


def block_hashes(name: str) -> NDArray[np.uint8]:
    """Digests of the outputs of all blocks of 2^20 inputs, (4096, 8)."""
    pinned = torch.empty(_LAUNCH, dtype=SWEEPS[name].dtype, pin_memory=True)
    digests: list[bytes] = []
    with ThreadPoolExecutor() as pool:
        for base in range(0, 1 << 32, _LAUNCH):
            pinned.copy_(outputs(name, base, _LAUNCH))
            digests += pool.map(digest, pinned.numpy().reshape(-1, BLOCK))
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES)


def run_arithmetic(name: str, operands: torch.Tensor) -> torch.Tensor:
    """Output bits of an arithmetic instruction on int32 operand bits (3, count) on the GPU."""
    x, y, z = operands
    out = torch.empty_like(x)
    launch(functions(), f"arith_{name}", Grid(out.numel() // THREADS, THREADS), [x, y, z, out])
    return out


def mapped(name: str, bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Output bits of a float32 sweep for the given inputs; their number is a multiple of 256."""
    x = torch.from_numpy(bits.view(np.int32)).cuda()
    out = torch.empty_like(x)
    launch(functions(), f"map_{name}", Grid(bits.size // THREADS, THREADS), [x, out])
    return out.cpu().numpy().view(np.uint32)
