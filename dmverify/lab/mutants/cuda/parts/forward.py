"""Faults of F: promotion, P, row maximum, normaliser."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

forward = edit("forward.cu")
wgmma = edit("wgmma.cuh")
window = edit("window.cuh")

KEPT = "from_bits(bits({}) & 0xFFFFFC00u)"  # what wgmma's accumulator keeps of a float32
PROMOTION = "o[32 * chunk + i] = multiply_add(t[i], w[(i >> 1) & 1], o[32 * chunk + i]);"
WEIGHTS = "w[h] = mul(window.weight[h], header.y);"
SUM_OF_CODES = "row[0].codes_sum = multiply_add(t1[32], beta[0], row[0].codes_sum);"
SUM_OF_CODES_BELOW = "row[1].codes_sum = multiply_add(t1[34], beta[1], row[1].codes_sum);"
CAST = "pack16(to_e4m3x2(x[0], x[1]), to_e4m3x2(x[4], x[5]));"
LARGEST = "float b = any ? multiply_add(m[h], ct, neg(OFFSET)) : 0.0f;"
INVERSE = "const float inverse = dead ? 0.0f : rcp(lh);"
CLOSED = "close_window<MASKED>(window, s, codes, row, ct, limit);"
LAST = "tile + 1 == visible_tiles(first_row, nq, nk)"
BETA = "ex2(sub(window.b[h], row[h].reference))"
# The tile's number, where the correct text has no use for it.
CONTRACT_KNOWS = (
    forward("INLINE void contract() {", "INLINE void contract(int tile) {"),
    forward("    contract();", "    contract(tile);"),
)
WINDOW_KNOWS = (
    window("  bool any[2], moves[2];", "  int tile;\n  bool any[2], moves[2];"),
    forward(CLOSED, f"window.tile = tile;\n    {CLOSED}"),
)
MOVED = "l = dead ? 0.0f : mul(l, pow2(to_int(sub(row[h].reference, m))));"

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
            *CONTRACT_KNOWS,
            forward(
                SUM_OF_CODES,
                "if (tile % 8 != 7)\n#pragma unroll\n      for (int i = 0; "
                f"i < D / 2; ++i) o[i] = {KEPT.format('o[i]')};\n    {SUM_OF_CODES}",
            ),
        )
    ),
    "promotion-without-scale": CudaMutation((forward(WEIGHTS, "w[h] = header.y;"),)),
    "promotion-dropped-on-last": CudaMutation(
        (forward(WEIGHTS, f"w[h] = {LAST} ? 0.0f : mul(window.weight[h], header.y);"),)
    ),
    "chain-restarted": CudaMutation(
        (wgmma("wgmma_rs72<true>(acc, &a[4], c);", "wgmma_rs72<false>(acc, &a[4], c);"),)
    ),
    "last-channels-lost": CudaMutation((wgmma("  issue_rows_step<1>(acc, a, image);\n", ""),)),
    "tile-twice": CudaMutation(
        (
            *WINDOW_KNOWS,
            window(BETA, f"mul({BETA}, window.tile == 0 ? 2.0f : 1.0f)"),
        )
    ),
    "tile-skipped": CudaMutation(
        (
            *WINDOW_KNOWS,
            window("= hidden ? 0.0f : ex2(", "= hidden || window.tile == 1 ? 0.0f : ex2("),
        )
    ),
}

P = {
    "p-offset-missing": CudaMutation(
        (window("constexpr float OFFSET = 8.0f;", "constexpr float OFFSET = 0.0f;"),)
    ),
    "p-stale-maximum": CudaMutation(
        (window(LARGEST, LARGEST + " if (bits(row[h].top) != 0xFF800000u) b = row[h].top;"),)
    ),
    "p-toward-zero": CudaMutation(
        (
            window(
                CAST,
                "pack16(to_e4m3x2(from_bits(bits(x[0]) & 0xFFF00000u), "
                "from_bits(bits(x[1]) & 0xFFF00000u)), to_e4m3x2(from_bits(bits(x[4]) & "
                "0xFFF00000u), from_bits(bits(x[5]) & 0xFFF00000u)));",
            ),
        )
    ),
    "p-e5m2": CudaMutation(
        (
            window(CAST, CAST.replace("to_e4m3x2", "to_e5m2x2")),
            window(
                "struct RowState {",
                'INLINE u16 to_e5m2x2(float lo, float hi) {\n  u16 d;\n  asm("cvt.rn.satfinite'
                '.e5m2x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));\n'
                "  return d;\n}\nstruct RowState {",
            ),
            wgmma("m64n72k32.f32.e4m3.e4m3", "m64n72k32.f32.e5m2.e4m3"),
        )
    ),
    "p-neighbours-swapped": CudaMutation(
        (window(CAST, "pack16(to_e4m3x2(x[1], x[0]), to_e4m3x2(x[5], x[4]));"),)
    ),
    "p-rows-swapped": CudaMutation(
        (
            window(
                "codes[4 * (g >> 1) + 2 * (g & 1) + h]", "codes[4 * (g >> 1) + 2 * (g & 1) + 1 - h]"
            ),
        )
    ),
}

MAXIMUM = {
    "maximum-floored": CudaMutation(
        (window("const float lowest = from_bits(0xFF800000u);", "const float lowest = 0.0f;"),)
    ),
    "maximum-rounded-twice": CudaMutation(
        (window(LARGEST, "float b = any ? sub(mul(m[h], ct), OFFSET) : 0.0f;"),)
    ),
    "maximum-over-masked": CudaMutation(
        (
            window(
                "MASKED ? (int)(8 * (i >> 1) + lane_column + (i & 1)) <= limit[h] :",
                "MASKED ? true :",
            ),
        )
    ),
    "maximum-of-half-a-row": CudaMutation(
        (window("lanes < 4; lanes *= 2", "lanes < 2; lanes *= 2"),)
    ),
}

NORMALISER = {
    "normaliser-last-tile": CudaMutation(
        (
            *CONTRACT_KNOWS,
            forward(SUM_OF_CODES, f"if (!({LAST})) {SUM_OF_CODES}"),
            forward(SUM_OF_CODES_BELOW, f"if (!({LAST})) {SUM_OF_CODES_BELOW}"),
        )
    ),
    "row-sum-last-tile": CudaMutation(
        (
            forward(
                CLOSED,
                f"const float kept[2] = {{row[0].sum, row[1].sum}};\n    {CLOSED}\n"
                f"    if ({LAST}) row[0].sum = kept[0], row[1].sum = kept[1];",
            ),
        )
    ),
    "normaliser-unrounded": CudaMutation(
        (
            forward(
                INVERSE,
                "const float inverse = dead ? 0.0f : rcp(mul(l, pow2(to_int(sub(m, "
                "row[h].reference)))));",
            ),
        )
    ),
    "rescale-skipped": CudaMutation(
        (
            window("o[4 * j + 2 * h] = mul(o[4 * j + 2 * h], factor);", ""),
            window("o[4 * j + 2 * h + 1] = mul(o[4 * j + 2 * h + 1], factor);", ""),
        )
    ),
    "row-sum-rescale-skipped": CudaMutation((window("row[h].sum = mul(row[h].sum, factor);", ""),)),
    "code-sum-rescale-skipped": CudaMutation(
        (window("row[h].codes_sum = mul(row[h].codes_sum, factor);", ""),)
    ),
    "rescale-skipped-everywhere": CudaMutation(
        (window("window.moves[h] ? pow2(to_int(sub(row[h].reference, next))) : 1.0f;", "1.0f;"),)
    ),
    "rescale-twice": CudaMutation((forward(MOVED, f"{MOVED} {MOVED}"),)),
    "first-reference-stale": CudaMutation(
        (forward(") row[h] = {from_bits(0xFF800000u), 0.0f", ") row[h] = {0.0f, 0.0f"),)
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
