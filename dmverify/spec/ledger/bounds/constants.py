"""The constants of the ledger's bounds as float64, read from the table that cites their lemmas.

A constant that float64 cannot hold is rounded to nearest; the table of bounds raises every figure
by more than that. What is written out here are counts of a contract's geometry.
"""

from __future__ import annotations

from dmverify.spec.constants import constant

U = float(constant("U"))
ETA = float(constant("ETA"))
FP32_SMALLEST_NORMAL = float(constant("FP32_SMALLEST_NORMAL"))
E4M3_RELATIVE = float(constant("E4M3_RELATIVE"))
E4M3_ABSOLUTE = float(constant("E4M3_ABSOLUTE"))
E4M3_OF_CODE = float(constant("E4M3_OF_CODE"))
E4M3_HALF_UNIT = float(constant("E4M3_HALF_UNIT"))
CARRY_GROWTH = float(constant("CARRY_GROWTH"))
E4M3_MAX = float(constant("E4M3_MAX"))
E4M3_SMALLEST_NORMAL = float(constant("E4M3_SMALLEST_NORMAL"))
BF16_BITS = int(constant("BF16_BITS"))
BF16_ABSOLUTE = float(constant("BF16_ABSOLUTE"))
BF16_OVERFLOW = float(constant("BF16_OVERFLOW"))
TENSOR_CORE = float(constant("TENSOR_CORE"))
SURELY_EXACT = float(constant("SURELY_EXACT"))
K32 = int(constant("K32"))
EX2 = float(constant("EX2"))
LAZY = float(constant("REFERENCE_LAG"))
OUTWARD = float(constant("OUTWARD"))

QUAD_CHAIN = 8  # keys of a window that one chain of the quad order sums
QUAD_LANES = 2  # additions that combine four lanes
CHANNEL_LANES = 32
CHANNEL_FOLDS = 5  # additions that combine 32 lanes
E4M3_ROUNDINGS = 3  # fp32 roundings of x inv or x / s and of s itself before the code is made
