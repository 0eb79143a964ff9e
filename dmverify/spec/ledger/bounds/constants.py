"""The constants of the ledger's bounds as float64, read from the table that cites their lemmas.

A constant that float64 cannot hold is rounded to nearest; the table of bounds raises every figure
by more than that. Counts are integers: roundings on a path, and what a contract's geometry fixes.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.constants import constant

LOG2_E = float(np.log2(np.e))
U = float(constant("U"))
UNDERFLOW_ERROR = float(constant("UNDERFLOW_ERROR"))
FLUSH = float(constant("FLUSH"))
FP32_SMALLEST_NORMAL = float(constant("FP32_SMALLEST_NORMAL"))
E4M3_RELATIVE = float(constant("E4M3_RELATIVE"))
E4M3_ABSOLUTE = float(constant("E4M3_ABSOLUTE"))
E4M3_OF_CODE = float(constant("E4M3_OF_CODE"))
E4M3_HALF_UNIT = float(constant("E4M3_HALF_UNIT"))
CARRY_GROWTH = float(constant("CARRY_GROWTH"))
SCALED_MAX = float(constant("SCALED_MAX"))
E4M3_MAX = float(constant("E4M3_MAX"))
E4M3_SMALLEST_NORMAL = float(constant("E4M3_SMALLEST_NORMAL"))
SCALE_DENORMAL = float(constant("SCALE_DENORMAL"))
BF16_BITS = int(constant("BF16_BITS"))
BF16_RELATIVE = float(constant("BF16_RELATIVE"))
BF16_ABSOLUTE = float(constant("BF16_ABSOLUTE"))
ACC_TRUNCATION = float(constant("ACC_TRUNCATION"))
SURELY_EXACT = float(constant("SURELY_EXACT"))
K32 = int(constant("K32"))
EX2 = float(constant("EX2"))
EXP2_CHORD = float(constant("EXP2_CHORD"))
RESCALE_THRESHOLD = float(constant("RESCALE_THRESHOLD"))
P_MAX_EXPONENT = int(constant("P_MAX_EXPONENT"))
SMALL_RESIDUE = float(constant("SMALL_RESIDUE"))
EXACT_EXPONENT = float(constant("EXACT_EXPONENT"))
WINDOW_RESIDUE = float(constant("WINDOW_RESIDUE"))
LEAST_WINDOW_CODE = float(constant("LEAST_WINDOW_CODE"))
NORM_STEP = float(constant("NORM_STEP"))
NORM_SLACK = float(constant("NORM_SLACK"))
TWO_U64 = float(constant("TWO_U64"))
FLOAT64_SMALLEST_NORMAL = float(constant("FLOAT64_SMALLEST_NORMAL"))
OPERATIONS = int(constant("CLOSED_FORM_OPERATIONS"))
OPERATIONS_OF_A_TERM = int(constant("OPERATIONS_OF_A_TERM"))

QUAD_CHAIN = int(constant("QUAD_CHAIN"))
QUAD_LANES = int(constant("QUAD_LANES"))
CHANNEL_LANES = int(constant("CHANNEL_LANES"))
CHANNEL_FOLDS = int(constant("CHANNEL_FOLDS"))
CHAIN_STEPS = int(constant("CHAIN_STEPS"))
CHAIN_LANES = int(constant("CHAIN_LANES"))
CHAIN_PARITIES = int(constant("CHAIN_PARITIES"))

CAST_ROUNDINGS = int(constant("CAST_ROUNDINGS"))
RECIPROCAL_MAX = float(constant("RECIPROCAL_MAX"))
RECIPROCAL_ROUNDINGS = int(constant("RECIPROCAL_ROUNDINGS"))
QUOTIENT_ROUNDINGS = int(constant("QUOTIENT_ROUNDINGS"))
QUOTIENT_FACTOR = int(constant("QUOTIENT_FACTOR"))
CENTRED_UNDERFLOWS = int(constant("CENTRED_UNDERFLOWS"))
QUOTIENT_UNDERFLOWS = int(constant("QUOTIENT_UNDERFLOWS"))
OWN_UNDERFLOWS = int(constant("OWN_UNDERFLOWS"))
OUTPUT_ROUNDINGS = int(constant("OUTPUT_ROUNDINGS"))
GRADIENT_ROUNDINGS = int(constant("GRADIENT_ROUNDINGS"))
DOT_ROUNDINGS = int(constant("DOT_ROUNDINGS"))
LSE_ROUNDINGS = int(constant("LSE_ROUNDINGS"))
SHIFT_ROUNDINGS = int(constant("SHIFT_ROUNDINGS"))
ELEM_ROUNDINGS = int(constant("ELEM_ROUNDINGS"))
CARRIED_ROUNDINGS = int(constant("CARRIED_ROUNDINGS"))
EX2_CALLS = int(constant("EX2_CALLS"))
LEVEL_FACTOR = int(constant("LEVEL_FACTOR"))
