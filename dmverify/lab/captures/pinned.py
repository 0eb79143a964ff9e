"""Settings under which the captures have the same bits on every x86-64 processor that was tried.

| setting | without it |
|---|---|
| one thread | the order of sums follows the number of cores |
| MKL in its compatible reproducibility mode | matrix products follow the processor |
| torch's default kernels, no AVX | softmax, layer norm and sums follow the processor |
| no oneDNN | GELU follows the processor |
| the optimiser in ``adamw`` | square roots follow the processor |

Tried for the encoder and the first five steps of the character model: an AMD EPYC and emulated
Nehalem and Haswell processors agree in every bit. Another version of torch may give other bits.
"""

import torch

# Read when torch is imported, so they must be in the environment of a new process.
ENVIRONMENT = {
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "OMP_NUM_THREADS": "1",
}


def pin_torch() -> None:
    """Apply the settings that torch takes at run time."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
