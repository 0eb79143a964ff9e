"""The table of public rules.

| rule | suite |
|---|---|
| flashinfer | FlashInfer, Hopper FP8 attention tests |
| transformer-engine | Transformer Engine, FP8 fused attention tests |
| cudnn-frontend | cuDNN frontend, FP8 scaled dot product attention tests |
| flash-attention-3 | FlashAttention-3, FP8 forward tests |
| deepgemm | DeepGEMM, ``calc_diff`` |
| primus-turbo | Primus-Turbo, FP8 attention tests |
| allclose-1e-2 | KernelBench; tilelang examples |

The suites choose friendly inputs of their own (Gaussian, or sparse integers); here every rule sees
the inputs that target faults. Not covered: what else the suites check, such as shapes.
"""

from __future__ import annotations

from dmverify.lab.public_rules.judges import (
    as_close_as_rough,
    close,
    mean_square_below,
    noise_below,
    range_error_below,
    similar,
)
from dmverify.lab.public_rules.rule import Judge, PublicRule

GRADIENTS = ("dq", "dk", "dv")
ALL = ("o", *GRADIENTS)


def _all(judge: Judge) -> dict[str, Judge]:
    return dict.fromkeys(ALL, judge)


_ROWS = (
    PublicRule(
        "flashinfer",
        "FlashInfer, Hopper FP8 tests",
        "mean squared error of O < 1.0",
        {"o": mean_square_below(1.0)},
    ),
    PublicRule(
        "transformer-engine",
        "Transformer Engine, FP8 attention tests",
        "RMSE of O, dQ, dK, dV < 0.11 (max - min)",
        _all(range_error_below(0.11)),
    ),
    PublicRule(
        "cudnn-frontend",
        "cuDNN frontend, FP8 SDPA tests",
        "atol 0.08, rtol 0.2 for O; 0.04, 0.2 for gradients; reference on the FP8 operands",
        {
            "o": close(atol=0.08, rtol=0.2),
            **dict.fromkeys(GRADIENTS, close(atol=0.04, rtol=0.2)),
        },
        on_operands=True,
    ),
    PublicRule(
        "flash-attention-3",
        "FlashAttention-3, FP8 tests",
        "largest error of O <= 2 x that of a reference that rounds normalised P",
        {"o": as_close_as_rough(2.0)},
        on_operands=True,
    ),
    PublicRule(
        "deepgemm",
        "DeepGEMM, calc_diff",
        "1 - 2 <x, y> / (<x, x> + <y, y>) < 1e-3",
        _all(similar(1e-3)),
    ),
    PublicRule(
        "primus-turbo",
        "Primus-Turbo, FP8 attention tests",
        "signal to noise > 20 dB",
        _all(noise_below(20.0)),
    ),
    PublicRule(
        "allclose-1e-2",
        "KernelBench, tilelang examples",
        "atol = rtol = 1e-2",
        _all(close(atol=1e-2, rtol=1e-2)),
    ),
)

PUBLIC_RULES: dict[str, PublicRule] = {rule.id: rule for rule in _ROWS}
"""Every public rule by id."""
