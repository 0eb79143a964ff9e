"""The constants of the bounds, each with what states it.

| name | value | statement |
|---|---|---|
| U | 2^-24 | fp32 rounds to nearest: fl(x) = x (1 + e), abs(e) <= U, away from underflow |
| ETA | 2^-150 | half the smallest fp32 subnormal: the absolute error of a rounded product |
| E4M3_RELATIVE | 1/17 | abs(RN(x) - x) <= x / 17 for normal codes, attained midway 16 to 18 |
| E4M3_ABSOLUTE | 2^-10 | half an E4M3 subnormal |
| E4M3_OF_CODE | 1/16 | abs(t - q) <= abs(q) / 16 for a normal code q = RN(t), t <= 464 |
| BF16_BITS | 8 | significant bits of BF16; an ulp in the binade of 2^e is 2^(e - 7) |
| BF16_ABSOLUTE | 2^-134 | half the smallest BF16 subnormal |
| TENSOR_CORE | 2^-13 | quantum over the largest term of an FP8 wgmma; measured on an H200 |
| EX2 | 2^-22.7 | relative error of ex2.approx.ftz, 2^-22.71 over all inputs, measured on an H200 |
| OUTWARD | 2^-52 | twice the unit roundoff of the float64 that evaluates the bounds |
"""

from __future__ import annotations

U = 2.0**-24
ETA = 2.0**-150
E4M3_RELATIVE = 1.0 / 17.0
E4M3_ABSOLUTE = 2.0**-10
E4M3_OF_CODE = 2.0**-4
E4M3_MAX = 448.0
E4M3_SMALLEST_NORMAL = 2.0**-6
BF16_BITS = 8
BF16_ABSOLUTE = 2.0**-134
BF16_OVERFLOW = 2.0**128 - 2.0**119  # from here a fp32 number stores as infinity
FP32_SMALLEST_NORMAL = 2.0**-126
TENSOR_CORE = 2.0**-13
K32 = 32  # products of one wgmma instruction
SURELY_EXACT = 2.0**-5  # of the largest term: such a product has no bit below the quantum
EX2 = 2.0**-22.7
OUTWARD = 2.0**-52
QUAD_CHAIN = 8  # keys of a window that one chain of the quad order sums
QUAD_LANES = 2  # additions that combine four lanes
CHANNEL_LANES = 32
CHANNEL_FOLDS = 5  # additions that combine 32 lanes
E4M3_ROUNDINGS = 3  # fp32 roundings of x inv or x / s and of s itself before the code is made
