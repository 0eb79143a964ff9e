"""Turns a choice of options into a loaded kernel, and starts it on torch's current stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from .build import BuildVariant, Edits, build
from .errors import BuildError
from .parameters import pack

SHARED = 232448  # bytes of dynamic shared memory, as in layout.cuh
ONES_ROWS = 8  # under V^T: ones, then zeros
LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Options:
    """What the caller chose, in the words of contracts, and how the kernels are to be built."""

    causal: bool
    mode: str
    zero_sum: bool
    scale: float
    centre_k: str = "blocked-mean"
    normaliser: str = "codes"
    dump: bool = False
    watchdog: bool = False
    compiler: str = "nvrtc"
    flags: tuple[str, ...] = ()
    edits: Edits = ()

    def variant(self, kernel: str, head_dim: int, *, split: bool = False) -> BuildVariant:
        """The variant of `kernel` that serves these options; choices it ignores are fixed."""
        backward = kernel == "query"
        return BuildVariant(
            kernel,
            head_dim,
            causal=self.causal if kernel != "quantise" else False,
            mode=self.mode if backward or self.saves_more(kernel) else "matched",
            zero_sum=self.zero_sum and backward,
            split=split,
            centred=self.centre_k != "none" or kernel != "quantise",
            unrounded=self.normaliser == "unrounded" and kernel == "forward",
            dump=self.dump and kernel in ("forward", "query"),
            watchdog=self.watchdog,
        )

    def saves_more(self, kernel: str) -> bool:
        """Whether the forward keeps what only these delta modes read."""
        return kernel == "forward" and self.mode in ("shifted", "associated")

    @property
    def exponent_scale(self) -> float:
        """c of the contract: fp32 of |scale| times log2 e."""
        return abs(self.scale) * LOG2_E


@lru_cache(maxsize=1024)
def load(
    variant: BuildVariant,
    name: str,
    device: int,
    compiler: str,
    flags: tuple[str, ...],
    edits: Edits,
) -> object:
    """The loaded kernel `name` of a variant, allowed all of the shared memory it asks for.

    Args:
        variant: What to compile, or to take from the cache.
        name: An entry of its cubin, such as ``forward`` or ``quantise_rest``.
        device: Index of the GPU, which becomes the current one.
        compiler: See `build`.
        flags: See `build`.
        edits: See `build`.

    Returns:
        A kernel of cuda-core. The last 1024 stay loaded, so one of the same choices comes again.

    Raises:
        BuildError: It cannot be built (see `build`), or the device does not grant the memory.
        ImportError: cuda-core is not installed.
    """
    from cuda.bindings import driver
    from cuda.core import Device, ObjectCode

    Device(device).set_current()
    code = ObjectCode.from_cubin(build(variant, compiler=compiler, flags=flags, edits=edits).cubin)
    kernel = code.get_kernel(name)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    size = quantise_shared(variant.head_dim) if variant.kernel == "quantise" else SHARED
    handle = driver.CUkernel(int(kernel.handle))
    (status,) = driver.cuKernelSetAttribute(attribute, size, handle, driver.CUdevice(device))
    if int(status) != 0:
        raise BuildError(status, rule="the device grants 227 KB", fix="use a Hopper GPU")
    return kernel


def quantise_shared(head_dim: int) -> int:
    """Dynamic shared memory of the quantiser: both images of 128 tokens, and alignment."""
    return 128 * head_dim + 128 * (head_dim + ONES_ROWS) + 1024


def start(
    options: Options,
    kernel: str,
    name: str,
    head_dim: int,
    *,
    grid: tuple[int, ...],
    threads: int,
    shared: int,
    arguments: Mapping[str, object],
    split: bool = False,
    overlaps: bool = False,
) -> None:
    """Launches one kernel on torch's current stream; tensors and None become pointers.

    Args:
        options: Build choices.
        kernel: File stem, see `BuildVariant`.
        name: The entry to start, see `load`.
        head_dim: 64, 128 or 256.
        grid: Number of CTAs in each dimension.
        threads: Of a CTA.
        shared: Dynamic shared memory of a CTA, in bytes.
        arguments: By the fields of params.cuh; tensors are on the current device.
        split: dV and dK are separate tasks (key only).
        overlaps: It may start beside the launch before it, for whose end it waits by itself.

    Raises:
        BuildError: It cannot be built or loaded, see `load`; an argument is missing or unknown.
        UnsupportedError: An integer argument does not fit 32 bits.
        TypeError: An argument is not of its field's type.
        CUDAError: Of cuda-core: the driver refuses the launch.
    """
    from cuda.core import LaunchConfig, Stream, launch

    device = torch.cuda.current_device()
    variant = options.variant(kernel, head_dim, split=split)
    loaded = load(variant, name, device, options.compiler, options.flags, options.edits)
    stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
    config = LaunchConfig(
        grid=grid, block=threads, shmem_size=shared, programmatic_stream_serialization=overlaps
    )
    launch(stream, config, loaded, *pack(name, arguments, dump=variant.dump))
