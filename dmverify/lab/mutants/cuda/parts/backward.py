"""Faults of B and G: delta, dS, softmax scale, code records."""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda.fault import CudaFault, edit

query = edit("query.cu")
key = edit("key.cu")
rows = edit("rows.cuh")
quantise = edit("quantise.cu")
forward = edit("forward.cu")

BOTH_SIGNS = (
    "terms have both signs, and the order within a window may lose more than windows among them do"
)
ZERO_SUM = "bundled:ds_cast=zero-sum"
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
DQ_STORED = "to_bf16x2(mul(me.dq[4 * j + 2 * h], scale), mul(me.dq[4 * j + 2 * h + 1], scale))"
FLIP = "if (ROLE == QUERY && flip && token < n) y[k] = neg(y[k]);"

DELTAS = (
    CudaFault(
        "delta-stale", "delta", "query", "delta is <dO, O>, where matched is promised", "delta",
        (), (on.V_OFFSET,), mode="stale",
    ),
    CudaFault(
        "delta-consistent", "delta", "query", "delta is <dO^, O>, where matched is promised",
        "delta", (), (on.V_OFFSET,), mode="consistent",
    ),
    CudaFault(
        "delta-unquantised-do", "delta", "quantise",
        "delta uses dO as it came where dP uses its codes", "delta",
        (), (on.V_OFFSET,), "bundled:delta=consistent", mode="stale",
    ),
    CudaFault(
        "delta-renormalised", "delta", "query",
        "delta is divided by the sum of P, where matched is promised", "bits",
        (), (on.V_OFFSET,), mode="renormalized",
        hidden="P adds up to 1 within a few ulp, so both deltas are within one order's reach",
    ),
    CudaFault(
        "delta-previous-row", "delta", "query", "rows take the delta of the row above", "delta",
        (query(DELTA, f"{DELTA} if constexpr (MODE == MATCHED) "
               "delta[h] = __shfl_sync(~0u, delta[h], "
               "max(int(threadIdx.x & 31) - 4, int(threadIdx.x & 3)));"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "delta-zero", "delta", "query", "delta is 0", "delta",
        (query(DELTA, "delta[h] = 0.0f;"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "delta-sign", "delta", "query", "delta is added", "dq",
        (query(CENTRED, CENTRED.replace("du[h]", "neg(du[h])")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "delta-last-window", "delta", "query", "delta lacks the last window", "delta",
        (query(TILE_SUM, TILE_SUM.replace("total", f"{LAST_TILE} ? 0.0f : total")),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "delta-lanes-lost", "delta", "query", "delta lacks two of a row's four lanes", "delta",
        (query("acc[h] = add(acc[h], shuffle_xor(acc[h], 2));", ""),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "delta-without-scales", "delta", "query", "delta sums the codes' products unscaled",
        "delta", (query(TILE_SUM, "add(total, acc[h]);"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "delta-half-unwritten", "memory", "query",
        "delta of rows 8 to 15 of every 16 keeps what its memory held", "delta",
        (query(", delta[padded + me.rows[1]] = add(me.delta[1], 0.0f);", ";"),), (on.GAUSSIAN,),
    ),
)  # fmt: skip

TILES = (
    CudaFault(
        "no-promotion-dq", "accumulation", "query",
        "dQ keeps the tensor core's 14 bits over all windows", "dq",
        (query(DQ_SUM, "{ " + DQ_SUM
               + f" dq[32 * chunk + i] = {KEPT.format('dq[32 * chunk + i]')}; }}"),),
        (on.POSITIVE,), hidden=BOTH_SIGNS,
    ),
    CudaFault(
        "no-promotion-dk", "accumulation", "key",
        "dK and dV keep the tensor core's 14 bits over all windows and heads", "dk",
        (key(KV_SUM, "{ " + KV_SUM
             + f" sums[32 * p + i] = {KEPT.format('sums[32 * p + i]')}; }}"),),
        (on.GROUPED, on.GAUSSIAN), hidden=BOTH_SIGNS,
    ),
    CudaFault(
        "ds-tile-scale-saturates", "dS", "query",
        "the tile's power of two is 4 times too large, and codes saturate", "dv",
        (query(EXPONENT, EXPONENT.replace("135", "137")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "p-tile-scale-missing", "P", "query",
        "P is cast without the tile's power of two", "dv",
        (query(f"top == 0 ? 0 : {EXPONENT}", "0"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "tile-maximum-of-one-warp", "dS", "query",
        "the tile's power of two comes from 16 of its 64 rows", "dv",
        (query("max(max(four & 255, (four >> 8) & 255), max((four >> 16) & 255, four >> 24))",
               "four >> 24"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "neighbour-tile-scale", "dS", "query",
        "every second tile is weighted with half of its power of two", "dq",
        (query("pow2(shift_u - shift_p);", "pow2(shift_u - shift_p - (tile & 1));"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "ds-norm-without-delta", "dS", "query",
        "the bound that scales dS leaves delta out", "dq",
        (query("add(mul(ng, header.z), largest)", "mul(ng, header.z)"),), (on.ZERO_V_SHARP,),
    ),
    CudaFault(
        "ds-scale-saturates", "dS", "query",
        "dS is scaled 2^5 too high, and codes saturate", "dq",
        (query("const int shift_u = binade(y);", "const int shift_u = binade(y) - 5;"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "ds-diagonal-without-delta", "dS", "query",
        "delta is not subtracted on the diagonal tile", "dq",
        (query(CENTRED, CENTRED.replace("du[h]", f"{LAST_TILE} ? 0.0f : du[h]")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "ds-cast-before-delta", "dS", "query",
        "dP is rounded to E4M3 before delta is subtracted", "dq",
        (query(CENTRED, "{ float dp, none; from_e4m3x2(to_e4m3x2(mul(mul(d[i], sdpu), 448.0f), "
               "0.0f), dp, none); centred = add(divide(dp, 448.0f), du[h]); }"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "ds-toward-zero", "dS", "query", "dS is rounded toward zero", "dq",
        (query(DS_CAST, "x_code[b] = to_e4m3x2(from_bits(bits(x[0]) & 0xFFF00000u), "
               "from_bits(bits(x[1]) & 0xFFF00000u));"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "ds-rounded-twice", "dS", "query", "dS is rounded to BF16 before E4M3", "bits",
        (query(DS_CAST, "{ const u32 pair = to_bf16x2(x[0], x[1]); "
               "x_code[b] = to_e4m3x2(bf16_low(pair), bf16_high(pair)); }"),),
        (on.GAUSSIAN,),
        hidden="a tie that BF16 makes is one code away, which the set of codes holds",
    ),
    CudaFault(
        "zero-sum-as-nearest", "dS", "query",
        "the nearest cast, where zero-sum is promised", "bits",
        (), (on.GAUSSIAN,), ZERO_SUM, nearest=True,
        hidden="every element is as near as the zero-sum cast may be; only a row's sum tells",
    ),
    CudaFault(
        "zero-sum-carry-sign", "dS", "query",
        "the zero-sum cast carries with the wrong sign", "bits",
        tuple(query(CARRY.format(h), CARRY.format(h).replace(f"sub(t[{h}], value[{h}])",
                                                            f"sub(value[{h}], t[{h}])"))
              for h in (0, 1)),
        (on.GAUSSIAN,), ZERO_SUM,
        hidden="every element is as near as the zero-sum cast may be; only a row's sum tells",
    ),
    CudaFault(
        "zero-sum-carries-on-masked", "dS", "query",
        "a masked key takes the carry, and its code is not 0", "dq",
        (query("x_code[b] = to_e4m3x2(hidden[0] ? 0.0f : t[0], hidden[1] ? 0.0f : t[1]);",
               "x_code[b] = to_e4m3x2(t[0], t[1]);"),),
        (on.GAUSSIAN,), ZERO_SUM,
        hidden="a carry is at most half a code, and so is what it adds",
    ),
)  # fmt: skip

CODES = (
    CudaFault(
        "fragments-swapped", "transposes", "query",
        "rows g and g + 8 of dS are exchanged for dQ", "dq",
        (
            query(FRAGMENT + PAIRS.format("0x6420"), FRAGMENT + PAIRS.format("0x7531")),
            query(NEXT_FRAGMENT + PAIRS.format("0x7531"), NEXT_FRAGMENT + PAIRS.format("0x6420")),
        ),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "p-pairs-swapped", "transposes", "query",
        "neighbouring keys are exchanged in the records of P", "dv",
        (query("pack16(p_code[0], p_code[1])", "pack16(p_code[1], p_code[0])"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "ds-pairs-swapped", "transposes", "query",
        "neighbouring keys are exchanged in the records and fragments of dS", "dk",
        (query("pack16(x_code[0], x_code[1])", "pack16(x_code[1], x_code[0])"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "record-weight-of-dv", "scale", "key", "dK is weighted like dV", "dk",
        (key("w[1] = scales.y;", "w[1] = scales.x;"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "record-products-swapped", "transposes", "key", "dV and dK take each other's codes", "dv",
        (
            key("load_codes(0, record + (SPLIT ? product * TILE_CODES : 0));",
                "load_codes(0, record + TILE_CODES);"),
            key("load_codes(1, record + TILE_CODES);", "load_codes(1, record);"),
        ),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "record-of-other-half", "geometry", "key", "64 keys take the record of the other 64", "dk",
        (key("me.window(at + half * RECORD_SLOT", "me.window(at + (1 - half) * RECORD_SLOT"),),
        (on.GAUSSIAN_FULL,),
    ),
)  # fmt: skip

SOFTMAX_SCALE = (
    CudaFault(
        "dk-scale-twice", "softmax scale", "key",
        "dK is multiplied by the softmax scale twice", "dk",
        (key(SCALED, SCALED.replace("factor", "mul(factor, factor)")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "dk-scale-missing", "softmax scale", "key",
        "dK is not multiplied by the softmax scale", "dk", (key(SCALED, ""),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "dq-scale-missing", "softmax scale", "query",
        "dQ is not multiplied by the softmax scale", "dq",
        (query(DQ_STORED, "to_bf16x2(me.dq[4 * j + 2 * h], me.dq[4 * j + 2 * h + 1])"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "softmax-scale-sign", "softmax scale", "quantise",
        "a negative softmax scale is taken to be positive", "o",
        (quantise(FLIP, ""),), (on.NEGATIVE_SCALE,),
    ),
    CudaFault(
        "exponent-base", "softmax scale", "forward", "the exponent lacks log2 e", "lse",
        (forward("float ct = mul(sq, header.x);",
                 "float ct = mul(mul(sq, header.x), 0.69314718f);"),),
        (on.GAUSSIAN,),
    ),
)  # fmt: skip

ROWS = (*DELTAS, *TILES, *CODES, *SOFTMAX_SCALE)
"""Faults of this part."""
