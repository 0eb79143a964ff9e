"""Faults of F: promotion, P, row maximum, normaliser."""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda.fault import CudaFault, edit

forward = edit("forward.cu")
wgmma = edit("wgmma.cuh")

KEPT = "from_bits(bits({}) & 0xFFFFFC00u)"  # what wgmma's accumulator keeps of a float32
PROMOTION = "o[32 * chunk + i] = multiply_add(t[i], w[(i >> 1) & 1], o[32 * chunk + i]);"
WEIGHTS = "w[0] = mul(w[0], header.y), w[1] = mul(w[1], header.y);"
SUM_OF_CODES = "row[0].codes_sum = multiply_add(t1[32], beta[0], row[0].codes_sum);"
SUM_OF_CODES_BELOW = "row[1].codes_sum = multiply_add(t1[34], beta[1], row[1].codes_sum);"
CAST = "pack16(to_e4m3x2(x[0], x[1]), to_e4m3x2(x[4], x[5]));"
LARGEST = "float b = any ? multiply_add(m[h], ct, neg(OFFSET)) : 0.0f;"
INVERSE = "float inverse = dead ? 0.0f : rcp(lh);"
TILE_WEIGHT = "weight[h] = any ? ex2(sub(b, row[h].reference)) : 0.0f;"
HIDDEN_EXPONENTIAL = "s[4 * j + i] = hidden ? 0.0f : ex2("
MOVED = "l = dead ? 0.0f : mul(l, pow2(to_int(sub(me.row[h].reference, m))));"
ROW_SUM = "row[h].sum = multiply_add(add(even, odd), weight[h], row[h].sum);"

ACCUMULATION = (
    CudaFault(
        "no-promotion", "accumulation", "forward",
        "O keeps the tensor core's 14 bits over all windows", "o",
        (forward(PROMOTION, "{ " + PROMOTION
                 + f" o[32 * chunk + i] = {KEPT.format('o[32 * chunk + i]')}; }}"),),
        (on.FLAT_OFFSET,),
    ),
    CudaFault(
        "promotion-every-8th", "accumulation", "forward",
        "O is moved to float32 after every eighth window only", "o",
        (forward(SUM_OF_CODES, "if (j % 8 != 7)\n#pragma unroll\n      for (int i = 0; "
                 f"i < D / 2; ++i) o[i] = {KEPT.format('o[i]')};\n    {SUM_OF_CODES}"),),
        (on.FLAT_OFFSET,),
    ),
    CudaFault(
        "promotion-without-scale", "accumulation", "forward",
        "a window is added to O without its weight 2^(b - R)", "o",
        (forward(WEIGHTS, "w[0] = header.y, w[1] = header.y;"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "promotion-dropped-on-last", "accumulation", "forward",
        "the last window never reaches O", "o",
        (forward(WEIGHTS, WEIGHTS + " if (LAST) w[0] = w[1] = 0.0f;"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "chain-restarted", "accumulation", "forward",
        "the second half of a window overwrites the first in P V", "o",
        (wgmma("wgmma_rs72<true>(acc, &a[4], c);", "wgmma_rs72<false>(acc, &a[4], c);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "last-channels-lost", "accumulation", "forward, query",
        "scores lack the last 32 channels", "lse",
        (wgmma("  issue_rows_step<1>(acc, a, image);\n", ""),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "tile-twice", "geometry", "forward",
        "the first window is counted twice", "lse",
        (forward(TILE_WEIGHT, TILE_WEIGHT
                 + " if (tile == 0) weight[h] = add(weight[h], weight[h]);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "tile-skipped", "geometry", "forward",
        "the second window of keys is left out", "lse",
        (forward(HIDDEN_EXPONENTIAL, HIDDEN_EXPONENTIAL.replace("hidden", "hidden || tile == 1")),),
        (on.GAUSSIAN,),
    ),
)  # fmt: skip

P = (
    CudaFault(
        "p-offset-missing", "P", "forward",
        "P is cast with its maximum at 1 instead of 2^8", "o",
        (forward("constexpr float OFFSET = 8.0f;", "constexpr float OFFSET = 0.0f;"),),
        (on.GAP,),
    ),
    CudaFault(
        "p-stale-maximum", "P", "forward",
        "the first window's maximum serves all, so that P passes 448 and saturates", "o",
        (forward(LARGEST, LARGEST
                 + " if (bits(row[h].top) != 0xFF800000u) b = row[h].top;"),),
        (on.RISING_SLOWLY, on.RISING),
    ),
    CudaFault(
        "p-toward-zero", "P", "forward",
        "P is rounded toward zero", "o",
        (forward(CAST, "pack16(to_e4m3x2(from_bits(bits(x[0]) & 0xFFF00000u), "
                 "from_bits(bits(x[1]) & 0xFFF00000u)), to_e4m3x2(from_bits(bits(x[4]) & "
                 "0xFFF00000u), from_bits(bits(x[5]) & 0xFFF00000u)));"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "p-e5m2", "P", "forward",
        "P is cast to E5M2, and the tensor core told so", "o",
        (
            forward(CAST, CAST.replace("to_e4m3x2", "to_e5m2x2")),
            forward("struct RowState {",
                    "INLINE u16 to_e5m2x2(float lo, float hi) {\n  u16 d;\n  asm(\"cvt.rn.satfinite"
                    ".e5m2x2.f32 %0, %1, %2;\" : \"=h\"(d) : \"f\"(hi), \"f\"(lo));\n"
                    "  return d;\n}\nstruct RowState {"),
            wgmma("m64n72k32.f32.e4m3.e4m3", "m64n72k32.f32.e5m2.e4m3"),
        ),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "p-neighbours-swapped", "P", "forward",
        "the codes of neighbouring keys are exchanged in P's fragments", "o",
        (forward(CAST, "pack16(to_e4m3x2(x[1], x[0]), to_e4m3x2(x[5], x[4]));"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "p-rows-swapped", "P", "forward",
        "rows g and g + 8 are exchanged in P's fragments", "o",
        (forward("codes[4 * (g >> 1) + 2 * (g & 1) + h]",
                 "codes[4 * (g >> 1) + 2 * (g & 1) + 1 - h]"),),
        (on.GAUSSIAN,),
    ),
)  # fmt: skip

MAXIMUM = (
    CudaFault(
        "maximum-floored", "row maximum", "forward",
        "the maximum starts at 0 instead of minus infinity", "o",
        (forward("const float lowest = from_bits(0xFF800000u);", "const float lowest = 0.0f;"),),
        (on.WIDE, on.LARGE_LOGITS),
    ),
    CudaFault(
        "maximum-rounded-twice", "row maximum", "forward",
        "the maximum is multiplied and then shifted, not in one fma", "bits",
        (forward(LARGEST, "float b = any ? sub(mul(m[h], ct), OFFSET) : 0.0f;"),),
        (on.WIDE,),
        hidden="one ulp of the reference scales P, l and O alike, below every rounding allowed",
    ),
    CudaFault(
        "maximum-over-masked", "row maximum", "forward",
        "masked keys take part in the maximum", "o",
        (forward("if (!MASKED || (int)(8 * j + lane_column + b) <= limit[h])", "if (true)"),),
        (on.WIDE, on.RISING),
    ),
    CudaFault(
        "maximum-of-half-a-row", "row maximum", "forward",
        "two lanes of a row keep a maximum of their own", "o",
        (forward("m[h] = maximum(m[h], shuffle_xor(m[h], 2));", ""),),
        (on.WIDE,),
    ),
)  # fmt: skip

NORMALISER = (
    CudaFault(
        "normaliser-last-tile", "normaliser", "forward",
        "the sum of the codes lacks the last window", "o",
        (
            forward(SUM_OF_CODES, f"if (!LAST) {SUM_OF_CODES}"),
            forward(SUM_OF_CODES_BELOW, f"if (!LAST) {SUM_OF_CODES_BELOW}"),
        ),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "row-sum-last-tile", "normaliser", "forward",
        "the row sum lacks windows that the mask cuts", "lse",
        (forward(ROW_SUM, f"if (!MASKED) {ROW_SUM}"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "normaliser-unrounded", "normaliser", "forward",
        "O is divided by the sum of the unrounded P", "o",
        (forward(INVERSE, "float inverse = dead ? 0.0f : rcp(mul(l, pow2(to_int(sub(m, "
                 "me.row[h].reference)))));"),),
        (on.CONSTANT_V,),
    ),
    CudaFault(
        "rescale-skipped", "normaliser", "forward",
        "O keeps its old reference", "o",
        (
            forward("o[4 * j + 2 * h] = mul(o[4 * j + 2 * h], factor);", ""),
            forward("o[4 * j + 2 * h + 1] = mul(o[4 * j + 2 * h + 1], factor);", ""),
        ),
        (on.ZIGZAG,),
    ),
    CudaFault(
        "row-sum-rescale-skipped", "normaliser", "forward",
        "the row sum keeps its old reference", "lse",
        (forward("row[h].sum = mul(row[h].sum, factor);", ""),),
        (on.ZIGZAG,),
    ),
    CudaFault(
        "code-sum-rescale-skipped", "normaliser", "forward",
        "the sum of the codes keeps its old reference", "o",
        (forward("row[h].codes_sum = mul(row[h].codes_sum, factor);", ""),),
        (on.ZIGZAG,),
    ),
    CudaFault(
        "rescale-skipped-everywhere", "normaliser", "forward",
        "no running sum follows when the reference rises", "lse",
        (forward("float factor = pow2(to_int(sub(row[h].reference, next)));",
                 "float factor = 1.0f;"),),
        (on.ZIGZAG,),
    ),
    CudaFault(
        "rescale-twice", "normaliser", "forward",
        "the row sum is moved to the saved reference twice", "lse",
        (forward(MOVED, f"{MOVED} {MOVED}"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "first-reference-stale", "normaliser", "forward",
        "the reference starts at 0 instead of minus infinity", "o",
        (forward("me.row[h] = {from_bits(0xFF800000u), 0.0f", "me.row[h] = {0.0f, 0.0f"),),
        (on.LARGE_LOGITS,),
    ),
    CudaFault(
        "row-sum-lanes-lost", "normaliser", "forward",
        "the row sum lacks two of its four lanes", "lse",
        (forward("l = add(l, shuffle_xor(l, 2));", ""),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "row-sum-order", "instruction", "forward",
        "the four lanes of a row sum are combined in another order", "bits",
        (
            forward("l = add(l, shuffle_xor(l, 1));", "l = add(l, shuffle_xor(l, 2) );"),
            forward("l = add(l, shuffle_xor(l, 2));", "l = add(l, shuffle_xor(l, 1));"),
        ),
        (on.GAUSSIAN,),
        hidden="the bound is over every order of summation",
    ),
)  # fmt: skip

ROWS = (*ACCUMULATION, *P, *MAXIMUM, *NORMALISER)
"""Faults of this part."""
