"""Compiles probe texts with NVRTC and launches them; every recording names the build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from dmverify.conformance.kernels.machine import gpu_and_driver
from dmverify.lab.probes.texts import functions_text, text_hash

__all__ = ["Build", "Grid", "compile_text", "functions", "gpu_and_driver", "launch"]

ARCHITECTURE = "sm_90a"


@dataclass(frozen=True)
class Build:
    """A compiled probe text.

    Attributes:
        source_sha256: Hash of the CUDA C++ text.
        compiler: Name and version of the compiler.
        flags: Target architecture, the only flag.
        code: `cuda.core.ObjectCode`.
    """

    source_sha256: str
    compiler: str
    flags: str
    code: Any

    def kernel(self, name: str) -> Any:
        """The kernel called `name`."""
        return self.code.get_kernel(name)


@cache
def compile_text(text: str) -> Build:
    """Compiles CUDA C++ to machine code of `ARCHITECTURE`; needs no GPU."""
    from cuda import core
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    options = core.ProgramOptions(arch=ARCHITECTURE)
    code = core.Program(text, "c++", options).compile("cubin")
    return Build(
        text_hash(text), f"NVRTC {major}.{minor}", f"--gpu-architecture={ARCHITECTURE}", code
    )


def functions() -> Build:
    """The one-operand and arithmetic probes."""
    return compile_text(functions_text())


@dataclass(frozen=True)
class Grid:
    """How many run a kernel.

    Attributes:
        blocks: Number of blocks.
        threads: Threads of a block.
        shared_bytes: Dynamic shared memory of a block.
    """

    blocks: int
    threads: int
    shared_bytes: int = 0


def launch(build: Build, kernel: str, grid: Grid, args: Sequence[object]) -> None:
    """Runs one kernel and waits for it.

    Args:
        build: The compiled text.
        kernel: Its entry point.
        grid: How many run it.
        args: Tensors (their addresses are passed) and NumPy scalars.
    """
    from cuda import core

    torch.cuda.synchronize()
    device = core.Device()
    device.set_current()
    stream = device.default_stream
    config = core.LaunchConfig(grid=grid.blocks, block=grid.threads, shmem_size=grid.shared_bytes)
    values = [a.data_ptr() if isinstance(a, torch.Tensor) else a for a in args]
    core.launch(stream, config, build.kernel(kernel), *values)
    stream.sync()
