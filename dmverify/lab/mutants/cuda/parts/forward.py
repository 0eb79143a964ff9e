"""Faults of F: promotion, P, row maximum, normaliser."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

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

ACCUMULATION = {
    "no-promotion": CudaMutation(
        (
            forward(
                PROMOTION,
                "{ " + PROMOTION + f" o[32 * chunk + i] = {KEPT.format('o[32 * chunk + i]')}; }}",
            ),
        )
    ),
    "promotion-every-8th": CudaMutation(
        (
            forward(
                SUM_OF_CODES,
                "if (j % 8 != 7)\n#pragma unroll\n      for (int i = 0; "
                f"i < D / 2; ++i) o[i] = {KEPT.format('o[i]')};\n    {SUM_OF_CODES}",
            ),
        )
    ),
    "promotion-without-scale": CudaMutation(
        (forward(WEIGHTS, "w[0] = header.y, w[1] = header.y;"),)
    ),
    "promotion-dropped-on-last": CudaMutation(
        (forward(WEIGHTS, WEIGHTS + " if (LAST) w[0] = w[1] = 0.0f;"),)
    ),
    "chain-restarted": CudaMutation(
        (wgmma("wgmma_rs72<true>(acc, &a[4], c);", "wgmma_rs72<false>(acc, &a[4], c);"),)
    ),
    "last-channels-lost": CudaMutation((wgmma("  issue_rows_step<1>(acc, a, image);\n", ""),)),
    "tile-twice": CudaMutation(
        (
            forward(
                TILE_WEIGHT, TILE_WEIGHT + " if (tile == 0) weight[h] = add(weight[h], weight[h]);"
            ),
        )
    ),
    "tile-skipped": CudaMutation(
        (forward(HIDDEN_EXPONENTIAL, HIDDEN_EXPONENTIAL.replace("hidden", "hidden || tile == 1")),)
    ),
}

P = {
    "p-offset-missing": CudaMutation(
        (forward("constexpr float OFFSET = 8.0f;", "constexpr float OFFSET = 0.0f;"),)
    ),
    "p-stale-maximum": CudaMutation(
        (forward(LARGEST, LARGEST + " if (bits(row[h].top) != 0xFF800000u) b = row[h].top;"),)
    ),
    "p-toward-zero": CudaMutation(
        (
            forward(
                CAST,
                "pack16(to_e4m3x2(from_bits(bits(x[0]) & 0xFFF00000u), "
                "from_bits(bits(x[1]) & 0xFFF00000u)), to_e4m3x2(from_bits(bits(x[4]) & "
                "0xFFF00000u), from_bits(bits(x[5]) & 0xFFF00000u)));",
            ),
        )
    ),
    "p-e5m2": CudaMutation(
        (
            forward(CAST, CAST.replace("to_e4m3x2", "to_e5m2x2")),
            forward(
                "struct RowState {",
                'INLINE u16 to_e5m2x2(float lo, float hi) {\n  u16 d;\n  asm("cvt.rn.satfinite'
                '.e5m2x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));\n'
                "  return d;\n}\nstruct RowState {",
            ),
            wgmma("m64n72k32.f32.e4m3.e4m3", "m64n72k32.f32.e5m2.e4m3"),
        )
    ),
    "p-neighbours-swapped": CudaMutation(
        (forward(CAST, "pack16(to_e4m3x2(x[1], x[0]), to_e4m3x2(x[5], x[4]));"),)
    ),
    "p-rows-swapped": CudaMutation(
        (
            forward(
                "codes[4 * (g >> 1) + 2 * (g & 1) + h]", "codes[4 * (g >> 1) + 2 * (g & 1) + 1 - h]"
            ),
        )
    ),
}

MAXIMUM = {
    "maximum-floored": CudaMutation(
        (forward("const float lowest = from_bits(0xFF800000u);", "const float lowest = 0.0f;"),)
    ),
    "maximum-rounded-twice": CudaMutation(
        (forward(LARGEST, "float b = any ? sub(mul(m[h], ct), OFFSET) : 0.0f;"),)
    ),
    "maximum-over-masked": CudaMutation(
        (forward("if (!MASKED || (int)(8 * j + lane_column + b) <= limit[h])", "if (true)"),)
    ),
    "maximum-of-half-a-row": CudaMutation(
        (forward("m[h] = maximum(m[h], shuffle_xor(m[h], 2));", ""),)
    ),
}

NORMALISER = {
    "normaliser-last-tile": CudaMutation(
        (
            forward(SUM_OF_CODES, f"if (!LAST) {SUM_OF_CODES}"),
            forward(SUM_OF_CODES_BELOW, f"if (!LAST) {SUM_OF_CODES_BELOW}"),
        )
    ),
    "row-sum-last-tile": CudaMutation((forward(ROW_SUM, f"if (!MASKED) {ROW_SUM}"),)),
    "normaliser-unrounded": CudaMutation(
        (
            forward(
                INVERSE,
                "float inverse = dead ? 0.0f : rcp(mul(l, pow2(to_int(sub(m, "
                "me.row[h].reference)))));",
            ),
        )
    ),
    "rescale-skipped": CudaMutation(
        (
            forward("o[4 * j + 2 * h] = mul(o[4 * j + 2 * h], factor);", ""),
            forward("o[4 * j + 2 * h + 1] = mul(o[4 * j + 2 * h + 1], factor);", ""),
        )
    ),
    "row-sum-rescale-skipped": CudaMutation(
        (forward("row[h].sum = mul(row[h].sum, factor);", ""),)
    ),
    "code-sum-rescale-skipped": CudaMutation(
        (forward("row[h].codes_sum = mul(row[h].codes_sum, factor);", ""),)
    ),
    "rescale-skipped-everywhere": CudaMutation(
        (
            forward(
                "float factor = pow2(to_int(sub(row[h].reference, next)));", "float factor = 1.0f;"
            ),
        )
    ),
    "rescale-twice": CudaMutation((forward(MOVED, f"{MOVED} {MOVED}"),)),
    "first-reference-stale": CudaMutation(
        (forward("me.row[h] = {from_bits(0xFF800000u), 0.0f", "me.row[h] = {0.0f, 0.0f"),)
    ),
    "row-sum-lanes-lost": CudaMutation((forward("l = add(l, shuffle_xor(l, 2));", ""),)),
    "row-sum-order": CudaMutation(
        (
            forward("l = add(l, shuffle_xor(l, 1));", "l = add(l, shuffle_xor(l, 2) );"),
            forward("l = add(l, shuffle_xor(l, 2));", "l = add(l, shuffle_xor(l, 1));"),
        )
    ),
}

MUTATIONS = {**ACCUMULATION, **P, **MAXIMUM, **NORMALISER}
"""By the mutant's id."""
