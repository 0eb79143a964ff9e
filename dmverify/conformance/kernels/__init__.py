"""The built-in kernels under test, by name; each is loaded only when asked for."""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.conformance.kernels.peers import PEERS


@dataclass(frozen=True)
class KernelEntry:
    """One row of the table.

    Attributes:
        target: ``module:object`` that makes it.
        summary: What it is.
        judged: What ``verify`` judges it by, in words.
        apart: Whether it runs in a process of its own: what others wrote does.
    """

    target: str
    summary: str
    judged: str
    apart: bool = False


_HERE = "dmverify.conformance.kernels"

SUMMARIES = {
    "torch-math": "torch's composite attention in BF16, on any device, contract bf16-math",
    "torch-flash": "FlashAttention-2 through torch in BF16, contract bf16-flash",
    "torch-cudnn": "cuDNN's attention through torch in BF16, contract bf16-flash",
    "flash-3": "FlashAttention-3 in BF16, forward, contract bf16-flash",
    "flash-3-fp8": "FlashAttention-3 in E4M3, forward, contract flash-3-fp8",
    "cudnn-fp8": "cuDNN's attention in E4M3, contract cudnn-fp8",
}

KERNELS: dict[str, KernelEntry] = {
    "simulation": KernelEntry(
        f"{_HERE}.simulation:Simulation",
        "fp32-accumulating FP8 attention in torch, contracts article and upstream",
        "enclosures of every output that the contract allows",
    ),
    "bundled": KernelEntry(
        f"{_HERE}.bundled:Bundled",
        "this project's FP8 kernel for Hopper GPUs, contract bundled in every delta mode and cast",
        "the specification's bits",
    ),
    "emulator": KernelEntry(
        f"{_HERE}.emulator:Emulator",
        "the specification's own bits as a kernel, contract bundled, for demonstrations",
        "nothing: verify refuses to judge the specification by itself",
    ),
} | {
    name: KernelEntry(target, SUMMARIES[name], "enclosures of all that its contract allows", True)
    for name, target in PEERS.items()
}
