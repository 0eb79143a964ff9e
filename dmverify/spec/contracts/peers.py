"""The contracts of kernels that others ship, as their documents and public source state them.

| contract | kernels | operands | P | delta | dS | stored in |
|---|---|---|---|---|---|---|
| bf16-math | torch's composite operator | BF16 | not cast | sum P dP | not cast | BF16 |
| bf16-flash | FlashAttention-2 and 3, cuDNN | BF16 | BF16, running | <dO, O> | BF16 | BF16 |
| flash-3-fp8 | FlashAttention-3, forward | E4M3, amax / 448 a key head | E4M3 2^8 e | | | BF16 |
| cudnn-fp8 | cuDNN | E4M3, 2^-k a tensor | E4M3 2^8 e; 2^8 P | <dO^, O> | E4M3 | E4M3 |

What is not public is left open: the order of every sum, the tiles and the running maxima of the
online softmax, and how its exponent is formed.

Sources: torch's composite operator; Dao, "FlashAttention-2" (2023) and Shah et al.,
"FlashAttention-3" (2024) with their public kernels (P from the unrounded row sum, delta from the
stored O, an offset of 2^8 for E4M3); the graph that cuDNN's frontend builds for FP8 attention
(scales, 2^8 for P chosen by the caller, delta from the E4M3 O, dS times the softmax scale before
its cast). Not covered: dropout, biases, windows, sinks.
"""

from __future__ import annotations

from dataclasses import replace

from dmverify.spec.contracts.contract import Contract
from dmverify.spec.contracts.schedule import Online

BF16_MATH = Contract(
    base="bf16-math",
    summary="BF16 in and out, float32 between, delta summed from the gradient's own operands",
    operand_rule="amax",
    schedule=Online(operands="bf16", p="unrounded", ds="unrounded"),
    centre_k="none",
    delta="matched",
)
BF16_FLASH = replace(
    BF16_MATH,
    base="bf16-flash",
    summary="BF16 operands, P, dS and outputs; delta from the stored O",
    schedule=Online(operands="bf16", p="bf16", ds="bf16"),
    delta="consistent",
)
FLASH_3_FP8 = replace(
    BF16_FLASH,
    base="flash-3-fp8",
    summary="E4M3 operands, amax / 448 for each key head; E4M3 P; BF16 O; no backward",
    schedule=Online(operands="whole", p="e4m3", ds="bf16"),
    q_block=None,
    k_block=None,
    v_block=None,
    do_block=None,
    scale_span="group",
)
CUDNN_FP8 = replace(
    FLASH_3_FP8,
    base="cudnn-fp8",
    summary="E4M3 operands, P, dS and outputs, a power of two a tensor; delta from the E4M3 O",
    operand_rule="amax-power-of-two",
    scale_span="call",
    schedule=Online(operands="whole", p="e4m3", ds="call-exponent"),
    store="call-exponent",
    saturate=True,
)
PEER_CONTRACTS = (BF16_MATH, BF16_FLASH, FLASH_3_FP8, CUDNN_FP8)
