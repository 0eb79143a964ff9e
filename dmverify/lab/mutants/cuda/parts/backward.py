"""Faults of B and G: delta, dS, softmax scale, code records."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

query = edit("query.cu")
key = edit("key.cu")
sums = edit("delta.cuh")
quantise = edit("quantise.cu")
forward = edit("forward.cu")

KEPT = "from_bits(bits({}) & 0xFFFFFC00u)"
DQ_SUM = "dq[32 * chunk + i] = multiply_add(t[i], w, dq[32 * chunk + i]);"
KV_SUM = "sums[32 * p + i] = multiply_add(t[i], w[p / CHUNKS], sums[32 * p + i]);"
DELTA = "if constexpr (MODE == MATCHED) delta[h] = mul(acc[h], r[h]);"
TILE_SUM = "multiply_add(total, sdp, acc[h]);"
CENTRED = "centred = multiply_add(d[i], sdpu, du[h]);"
LAST_TILE = "tile == visible_tiles(first_row, to.nq, to.nk) - 1"
DS_CAST = "x_code[b] = to_e4m3x2(x[0], x[1]);"
PAIRS = "permute(x_pairs[2 * i], x_pairs[2 * i + 1], {})"
FRAGMENT, NEXT_FRAGMENT = "a[4 * (i >> 1) + 2 * (i & 1)] = ", "a[4 * (i >> 1) + 2 * (i & 1) + 1] = "
EXPONENT = "min(100, 135 - (int)top)"
CARRY = "carry[{0}] = hidden[{0}] ? carry[{0}] : sub(t[{0}], value[{0}]);"
SCALED = "if (scaled) x = mul(x, factor), y = mul(y, factor);"
DQ_STORED = "to_bf16x2(mul(me.dq[4 * j + 2 * h], p.scale), mul(me.dq[4 * j + 2 * h + 1], p.scale))"
FLIP = "if (ROLE == QUERY && flip && token < n) y[k] = neg(y[k]);"

DELTAS = {
    "delta-stale": CudaMutation(mode="stale"),
    "delta-consistent": CudaMutation(mode="consistent"),
    "delta-unquantised-do": CudaMutation(mode="stale"),
    "delta-renormalised": CudaMutation(mode="renormalized"),
    "delta-previous-row": CudaMutation(
        (
            sums(
                DELTA,
                f"{DELTA} if constexpr (MODE == MATCHED) "
                "delta[h] = __shfl_sync(~0u, delta[h], "
                "max(int(threadIdx.x & 31) - 4, int(threadIdx.x & 3)));",
            ),
        )
    ),
    "delta-zero": CudaMutation((sums(DELTA, "delta[h] = 0.0f;"),)),
    "delta-sign": CudaMutation((query(CENTRED, CENTRED.replace("du[h]", "neg(du[h])")),)),
    "delta-last-window": CudaMutation(
        (sums(TILE_SUM, TILE_SUM.replace("total", f"{LAST_TILE} ? 0.0f : total")),)
    ),
    "delta-lanes-lost": CudaMutation((sums("acc[h] = add(acc[h], shuffle_xor(acc[h], 2));", ""),)),
    "delta-without-scales": CudaMutation((sums(TILE_SUM, "add(total, acc[h]);"),)),
    "delta-half-unwritten": CudaMutation(
        (query(", p.delta[padded + me.rows[1]] = add(me.delta[1], 0.0f);", ";"),)
    ),
}

TILES = {
    "no-promotion-dq": CudaMutation(
        (
            query(
                DQ_SUM,
                "{ " + DQ_SUM + f" dq[32 * chunk + i] = {KEPT.format('dq[32 * chunk + i]')}; }}",
            ),
        )
    ),
    "no-promotion-dk": CudaMutation(
        (key(KV_SUM, "{ " + KV_SUM + f" sums[32 * p + i] = {KEPT.format('sums[32 * p + i]')}; }}"),)
    ),
    "ds-tile-scale-saturates": CudaMutation((query(EXPONENT, EXPONENT.replace("135", "137")),)),
    "p-tile-scale-missing": CudaMutation((query(f"top == 0 ? 0 : {EXPONENT}", "0"),)),
    "tile-maximum-of-one-warp": CudaMutation(
        (
            query(
                "max(max(four & 255, (four >> 8) & 255), max((four >> 16) & 255, four >> 24))",
                "four >> 24",
            ),
        )
    ),
    "neighbour-tile-scale": CudaMutation(
        (query("pow2(shift_u - shift_p);", "pow2(shift_u - shift_p - (tile & 1));"),)
    ),
    "ds-norm-without-delta": CudaMutation(
        (query("add(mul(ng, header.z), largest)", "mul(ng, header.z)"),)
    ),
    "ds-scale-saturates": CudaMutation(
        (query("const int shift_u = binade(y);", "const int shift_u = binade(y) - 5;"),)
    ),
    "ds-diagonal-without-delta": CudaMutation(
        (query(CENTRED, CENTRED.replace("du[h]", f"{LAST_TILE} ? 0.0f : du[h]")),)
    ),
    "ds-cast-before-delta": CudaMutation(
        (
            query(
                CENTRED,
                "{ float dp, none; from_e4m3x2(to_e4m3x2(mul(mul(d[i], sdpu), 448.0f), "
                "0.0f), dp, none); centred = add(divide(dp, 448.0f), du[h]); }",
            ),
        )
    ),
    "ds-toward-zero": CudaMutation(
        (
            query(
                DS_CAST,
                "x_code[b] = to_e4m3x2(from_bits(bits(x[0]) & 0xFFF00000u), "
                "from_bits(bits(x[1]) & 0xFFF00000u));",
            ),
        )
    ),
    "ds-through-bf16": CudaMutation(
        (
            query(
                DS_CAST,
                "{ const u32 pair = to_bf16x2(x[0], x[1]); "
                "x_code[b] = to_e4m3x2(bf16_low(pair), bf16_high(pair)); }",
            ),
        )
    ),
    "zero-sum-as-nearest": CudaMutation(nearest=True),
    "zero-sum-carry-sign": CudaMutation(
        tuple(
            query(
                CARRY.format(h),
                CARRY.format(h).replace(f"sub(t[{h}], value[{h}])", f"sub(value[{h}], t[{h}])"),
            )
            for h in (0, 1)
        )
    ),
    "zero-sum-carries-on-masked": CudaMutation(
        (
            query(
                "x_code[b] = to_e4m3x2(hidden[0] ? 0.0f : t[0], hidden[1] ? 0.0f : t[1]);",
                "x_code[b] = to_e4m3x2(t[0], t[1]);",
            ),
        )
    ),
}

CODES = {
    "fragments-swapped": CudaMutation(
        (
            query(FRAGMENT + PAIRS.format("0x6420"), FRAGMENT + PAIRS.format("0x7531")),
            query(NEXT_FRAGMENT + PAIRS.format("0x7531"), NEXT_FRAGMENT + PAIRS.format("0x6420")),
        )
    ),
    "p-pairs-swapped": CudaMutation(
        (query("pack16(p_code[0], p_code[1])", "pack16(p_code[1], p_code[0])"),)
    ),
    "ds-pairs-swapped": CudaMutation(
        (query("pack16(x_code[0], x_code[1])", "pack16(x_code[1], x_code[0])"),)
    ),
    "record-weight-of-dv": CudaMutation((key("w[1] = scales.y;", "w[1] = scales.x;"),)),
    "record-products-swapped": CudaMutation(
        (
            key(
                "load_codes(0, record + (SPLIT ? product * TILE_CODES : 0));",
                "load_codes(0, record + TILE_CODES);",
            ),
            key("load_codes(1, record + TILE_CODES);", "load_codes(1, record);"),
        )
    ),
    "record-of-other-half": CudaMutation(
        (key("me.window(at + half * RECORD_SLOT", "me.window(at + (1 - half) * RECORD_SLOT"),)
    ),
}

SOFTMAX_SCALE = {
    "dk-scale-twice": CudaMutation((key(SCALED, SCALED.replace("factor", "mul(factor, factor)")),)),
    "dk-scale-missing": CudaMutation((key(SCALED, ""),)),
    "dq-scale-missing": CudaMutation(
        (query(DQ_STORED, "to_bf16x2(me.dq[4 * j + 2 * h], me.dq[4 * j + 2 * h + 1])"),)
    ),
    "softmax-scale-sign": CudaMutation((quantise(FLIP, ""),)),
    "exponent-base": CudaMutation(
        (
            forward(
                "float ct = mul(sq, header.x);", "float ct = mul(mul(sq, header.x), 0.69314718f);"
            ),
        )
    ),
}

MUTATIONS = {**DELTAS, **TILES, **CODES, **SOFTMAX_SCALE}
"""By the mutant's id."""
