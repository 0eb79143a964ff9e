"""The bundled Hopper kernel: FP8 attention, forward and backward. It imports nothing of ours.

| kernel | file | one CTA takes | gives |
|---|---|---|---|
| quantiser | quantise.cu | 128 tokens of a head | codes as images, scales, a dot a token |
| F | forward.cu | 128 or 192 queries of a head | O, LSE, the statistics (M, l) |
| B | query.cu | 128 or 192 queries of a head | dQ, delta, records of P^T and dS^T codes |
| G | key.cu | 128 keys of a kv head | dK, dV from the records |

| call | module | what |
|---|---|---|
| ``dm_attn_func`` | api.py | (B, N, H, D) tensors, refusals, defaults |
| ``dm_attn_varlen_func`` | varlen.py | packed sequences, each computed as if it were alone |
| ``torch.ops.dmverify.*`` | ops.py | what autograd, torch.compile and fake tensors see |
| ``prepare``, ``forward``, ``backward`` | launch.py | launches on the current stream, all buffers |
| ``fields``, ``pack`` | parameters.py | what params.cuh lists: parameters by name, their places |
| ``stripes``, ``units_in`` | stripes.py | how the backward fits its records into a workspace |
| ``build`` | build.py | text, edits and flags to a cubin, without a GPU |
| ``check_sizes`` | limits.py | the largest sizes that are served |

To extend a kernel: what a head dim does otherwise stands in its ``Path`` (forward.cu, rows.cuh,
key.cu), places in shared memory that are filled and freed in ``Ring`` (ring.cuh), which heads and
blocks a CTA takes in ``QuerySchedule`` and ``KeySchedule`` (tasks.cuh), how the tensor core finds
an image in ``Descriptor`` (wgmma.cuh), a new argument in a list of params.cuh.

F, B and G: one warpgroup copies (bulk copies into a ring, mbarriers), two or three multiply (FP8
wgmma), each 64 queries (G: 64 keys). B runs over the keys twice where delta comes from its own
sums: first delta and the largest P of every 64 x 64 tile, then dS, its codes and dQ. NOTES.md has
what was tried for speed, with prediction and outcome.

Records of one stripe exist at once (stripes.py), so memory is linear in the length: 1.15 GB up to
16,384 keys, 66 kB for a key beyond, or what the caller gives as ``workspace_bytes``.

Numbers follow the contract ``bundled`` of the specification in every bit. What the code fixes
beyond its equations:

- fp32 operations are PTX instructions by name (arith.cuh): flags and compilers change no bit;
- a window in which a row sees no key leaves the row alone (beta = 0);
- R, O, l and lh move by powers of two built from exponent bits, +0 below 2^-126;
- padding: query rows have l = 0 and r = 0, keys are masked, codes are zeros of either sign;
- kP: exponent of the tile's largest P, 0 for a zero tile; u: within [2^-120, 2^100], 1 where the
  bound is zero;
- a NaN makes its block's scale and codes NaN; maxima over scores and over P skip NaN.

Not covered: NaN and infinity bit for bit, dropout, biases; sizes above those of limits.py are
refused.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmverify.kernel.api import dm_attn_func
    from dmverify.kernel.varlen import dm_attn_varlen_func

__all__ = ["dm_attn_func", "dm_attn_varlen_func"]

# Loaded when first used: whoever only builds the text needs no torch.
_HOMES = {"dm_attn_func": "dmverify.kernel.api", "dm_attn_varlen_func": "dmverify.kernel.varlen"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dmverify.kernel' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
