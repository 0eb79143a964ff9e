"""The built-in kernels under test, by name; each is loaded only when asked for."""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.late import object_at


@dataclass(frozen=True)
class KernelEntry:
    """One row of the table.

    Attributes:
        target: ``module:object`` that makes it.
        summary: What it is.
        judged: What ``verify`` judges it by, in words.
        needs: ``module:function`` that says whether this machine has what it needs; none if empty.
    """

    target: str
    summary: str
    judged: str
    needs: str = ""

    def runs_here(self) -> bool:
        """Whether this machine has what it needs."""
        return not self.needs or bool(object_at(self.needs)())


_HERE = "dmverify.conformance.kernels"

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
        needs=f"{_HERE}.bundled:hopper_present",
    ),
    "emulator": KernelEntry(
        f"{_HERE}.emulator:Emulator",
        "the specification's own bits as a kernel, contract bundled, for demonstrations",
        "nothing: verify refuses to judge the specification by itself",
    ),
}
