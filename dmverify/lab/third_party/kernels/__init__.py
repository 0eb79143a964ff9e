"""Attention kernels that others ship, as kernels under test; each module is loaded when asked for.

| name | module | what it needs |
|---|---|---|
| torch-math | ``torch_sdpa`` | torch, any device |
| torch-flash, torch-cudnn | ``torch_sdpa`` | torch and a GPU |
| flash-3, flash-3-fp8 | ``flash3`` | module flash_attn_interface and a Hopper GPU |
| cudnn-fp8 | ``cudnn_fp8`` | module cudnn and a Hopper GPU |

Their contracts are files of ``dmverify/spec/contracts/data`` of the same families.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from dmverify.errors import UnknownNameError
from dmverify.late import object_at

if TYPE_CHECKING:
    from dmverify.lab.third_party.kernels.peer import Peer

_HERE = "dmverify.lab.third_party.kernels"

PEERS = MappingProxyType(
    {
        "torch-math": f"{_HERE}.torch_sdpa:torch_math",
        "torch-flash": f"{_HERE}.torch_sdpa:torch_flash",
        "torch-cudnn": f"{_HERE}.torch_sdpa:torch_cudnn",
        "flash-3": f"{_HERE}.flash3:flash_3",
        "flash-3-fp8": f"{_HERE}.flash3:flash_3_fp8",
        "cudnn-fp8": f"{_HERE}.cudnn_fp8:cudnn_fp8",
    }
)
"""Where each peer is made, ``module:factory``, as the package's entry points offer it."""

ASKED = MappingProxyType(
    {
        **PEERS,
        "torch-math": f"{_HERE}.torch_sdpa:torch_math_gpu",
        "cudnn-fp8-deterministic": f"{_HERE}.cudnn_fp8:cudnn_fp8_deterministic",
    }
)
"""Who is asked on a GPU, and where each is made."""

SUMMARIES = MappingProxyType(
    {
        "torch-math": "torch's composite attention in BF16, on any device, contract bf16-math",
        "torch-flash": "FlashAttention-2 through torch in BF16, contract bf16-flash",
        "torch-cudnn": "cuDNN's attention through torch in BF16, contract bf16-flash",
        "flash-3": "FlashAttention-3 in BF16, forward, contract bf16-flash",
        "flash-3-fp8": "FlashAttention-3 in E4M3, forward, contract flash-3-fp8",
        "cudnn-fp8": "cuDNN's attention in E4M3, contract cudnn-fp8",
    }
)


def make(name: str) -> Peer:
    """The peer of that name.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in PEERS:
        raise UnknownNameError(
            f"peer {name!r}", rule=f"peers are {', '.join(PEERS)}", fix="name one of them"
        )
    peer: Peer = object_at(PEERS[name])()
    return peer
