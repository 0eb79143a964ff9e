"""Faults of the operands: masks, scales, K's mean, images, special values of inputs."""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda.fault import CudaFault, edit

forward = edit("forward.cu")
quantise = edit("quantise.cu")
query = edit("query.cu")
tasks = edit("tasks.cuh")
layout = edit("layout.cuh")
rows = edit("rows.cuh")

LIMIT = "return last - tile * BLOCK;"
LAST_KEY = "int last = nk - 1;"
HEADER = "head[ROLE == QUERY || ROLE == KEY ? 0 : 1] = i ? scale[1] : scale[0];"
HEADER_AT = HEADER[: HEADER.index("i ?")]
K_HEADER = "kv_heads + tile, 16, full_k + 8 * slot"
INVERSE_SCALE = "inverse[i] = zero ? 1.0f : divide(448.0f, clamped);"
MEAN = "mean[channel] = divide(sum, to_float(n));"
UNPACK = "x[2 * i] = bf16_low(w[i]), x[2 * i + 1] = bf16_high(w[i]);"
KEY_IMAGE = "if constexpr (HALVES)\n      transpose<KeyOrder>"
Q_SCALE = "q_heads[(i64)bh * q_blocks * 2 + q_block * 2 + half].x"
LARGEST = "float b = any ? multiply_add(m[h], ct, neg(OFFSET)) : 0.0f;"
HIDDEN = "hidden ? 0.0f : ex2(multiply_add(s[4 * j + i], ct, shift[i >> 1]))"
SENTINEL = "-14426.95f"  # -1e4 in base 2

MASKS = (
    CudaFault(
        "mask-top-left", "mask", "forward, query",
        "the causal mask is aligned to the top left", "lse",
        (tasks("last = min(last, row + (nk - nq));", "last = min(last, row);"),),
        (on.MORE_KEYS,),
    ),
    CudaFault(
        "mask-one-further", "mask", "forward, query",
        "every query sees one key too many", "lse",
        (tasks(LIMIT, "return last - tile * BLOCK + 1;"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "mask-one-nearer", "mask", "forward, query",
        "every query sees one key too few", "lse",
        (tasks(LIMIT, "return last - tile * BLOCK - 1;"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "mask-tail-keys", "mask", "forward, query",
        "keys beyond the last take part, as zeros", "lse",
        (tasks(LAST_KEY, "int last = (nk + BLOCK - 1) / BLOCK * BLOCK - 1;"),),
        (on.GAUSSIAN_FULL,),
    ),
    CudaFault(
        "mask-finite-sentinel", "mask", "forward",
        "masked logits are -10000, and real ones may be lower", "o",
        (
            forward(LARGEST, f"{LARGEST} if (MASKED && any && limit[h] < BLOCK - 1) "
                    f"b = maximum(b, sub({SENTINEL}, OFFSET));"),
            forward(HIDDEN, HIDDEN.replace("0.0f", f"ex2(add({SENTINEL}, shift[i >> 1]))")),
        ),
        (on.HUGE_LOGITS,),
    ),
    CudaFault(
        "mask-backward-missing", "mask", "query",
        "the backward does not mask the scores", "dv",
        (rows("if (visible_limit(first_row, tile, to.nq, to.nk) >= BLOCK - 1)", "if (true)"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "diagonal-tile-skipped", "mask", "all",
        "work stops one tile before the diagonal", "lse",
        (tasks("last = min(nk, row + BLOCK + nk - nq);", "last = min(nk, row + nk - nq);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "dead-rows-nan", "mask", "forward",
        "0 / 0 on rows that see no key", "dead-rows",
        (forward("float inverse = dead ? 0.0f : rcp(lh);", "float inverse = rcp(lh);"),),
        (on.MORE_QUERIES,),
    ),
    CudaFault(
        "dead-rows-lse-zero", "mask", "forward",
        "LSE of rows that see no key is 0", "dead-rows",
        (forward("dead ? from_bits(0xFF800000u)", "dead ? 0.0f"),),
        (on.MORE_QUERIES,),
    ),
)  # fmt: skip

SCALES = (
    CudaFault(
        "q-scale-dropped", "scale", "forward", "scores are formed without Q's scale", "lse",
        (forward(f"mul({Q_SCALE}, c)", "c"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "k-scale-dropped", "scale", "forward", "scores are formed without K's scale", "lse",
        (forward("const float ct = mul(sq, header.x);", "const float ct = sq;"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "value-scale-dropped", "scale", "forward", "O is formed without V's scale", "o",
        (forward("w[0] = mul(w[0], header.y), w[1] = mul(w[1], header.y);", ""),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "do-scale-dropped", "scale", "query", "dP and dV are formed without dO's scale", "dv",
        (query("me.sg = head.y", "me.sg = 1.0f"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "q-scale-neighbour", "scale", "forward", "a block of Q takes its neighbour's scale", "lse",
        (forward(Q_SCALE, Q_SCALE.replace("q_block * 2", "(q_blocks - 1 - q_block) * 2")),),
        (on.DISTINCT_QUERIES,),
    ),
    CudaFault(
        "k-scale-neighbour", "scale", "forward", "a block of K takes its neighbour's scale", "lse",
        (forward(K_HEADER, K_HEADER.replace("tile", "(tile ^ 1)")),), (on.DISTINCT,),
    ),
    CudaFault(
        "v-scale-neighbour", "scale", "quantise", "a block of V takes its neighbour's scale", "o",
        (quantise(HEADER, f"{HEADER_AT}(ROLE == VALUE) != (i != 0) ? scale[1] : scale[0];"),),
        (on.DISTINCT,),
    ),
    CudaFault(
        "do-scale-neighbour", "scale", "query", "a block of dO takes its neighbour's scale", "dv",
        (query("me.sg = head.y", "me.sg = q_heads[(i64)bh * q_blocks * 2 + (q_blocks - 1 - q_block)"
               " * 2 + me.half].y"),),
        (on.DISTINCT_QUERIES,),
    ),
    CudaFault(
        "k-scale-transposed", "scale", "forward",
        "scales stored (head, block) are read (block, head)", "lse",
        (forward(K_HEADER, "kv_heads + (i64)j * (batch_heads / (heads / kv_heads_count)) + kv, 16, "
                 "full_k + 8 * slot"),),
        (on.DISTINCT_HEADS,),
    ),
    CudaFault(
        "v-scale-inverse", "scale", "quantise", "V's scale is its inverse", "o",
        (quantise(HEADER, f"{HEADER_AT}divide(ROLE == VALUE ? 1.0f : i ? scale[1] : scale[0], "
                  "ROLE == VALUE ? (i ? scale[1] : scale[0]) : 1.0f);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "v-scale-first-reused", "scale", "quantise", "V's first scale serves all blocks", "o",
        (quantise(HEADER, f"{HEADER_AT}i && ROLE != VALUE ? scale[1] : scale[0];"),),
        (on.DISTINCT,),
    ),
    CudaFault(
        "scale-power-of-two", "scale", "quantise",
        "scales are rounded down to powers of two beside codes of the exact ones", "lse",
        (quantise(HEADER, f"{HEADER_AT}from_bits(bits(i ? scale[1] : scale[0]) & 0x7F800000u);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "scale-block-of-128", "scale", "quantise", "K and V have one scale per 128 tokens", "o",
        (quantise("if (!HALVES) top[0] = top[1]", "top[0] = top[1]"),), (on.DISTINCT,),
    ),
    CudaFault(
        "k-and-v-scale-swapped", "scale", "forward", "O takes K's scale for V's", "o",
        (forward("w[0] = mul(w[0], header.y), w[1] = mul(w[1], header.y);",
                 "w[0] = mul(w[0], header.x), w[1] = mul(w[1], header.x);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "zero-block-nan", "scale", "quantise", "0 / 0 where a block is zero", "nan",
        (quantise(INVERSE_SCALE, "inverse[i] = divide(448.0f, top[i]);"),), (on.ZERO_V,),
    ),
    CudaFault(
        "key-mean-skipped", "scale", "quantise", "K is not centred", "lse",
        (quantise(MEAN, "mean[channel] = 0.0f;"),), (on.K_OFFSET,),
    ),
    CudaFault(
        "key-mean-bf16", "scale", "quantise", "the mean of K is rounded to BF16", "lse",
        (quantise(MEAN, "mean[channel] = bf16_low(to_bf16x2(divide(sum, to_float(n)), 0.0f));"),),
        (on.K_OFFSET,),
    ),
)  # fmt: skip

IMAGES = (
    CudaFault(
        "v-permutation", "transposes", "quantise",
        "V^T is permuted for queries instead of keys", "o",
        (quantise(KEY_IMAGE, KEY_IMAGE.replace("HALVES", "ROLE == KEY")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "k-transpose-permutation", "transposes", "quantise",
        "K^T is permuted for queries instead of keys", "dq",
        (quantise(KEY_IMAGE, KEY_IMAGE.replace("HALVES", "ROLE == VALUE")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "query-permutation", "transposes", "quantise",
        "Q^T and dO^T are permuted for keys instead of queries", "dv",
        (quantise("transpose<QueryOrder>(rows", "transpose<KeyOrder>(rows"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "transpose-byte-pairs", "transposes", "quantise",
        "byte pairs are exchanged in the odd half of a transposition", "o",
        (quantise("ab2 = permute(a, b, 0x7362)", "ab2 = permute(a, b, 0x6273)"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "swizzle-row-bits", "transposes", "all",
        "images of 64-byte rows are swizzled by the wrong bits of the row", "lse",
        (layout("(chunk ^ ((row >> 1) & 3)) << 4", "(chunk ^ (row & 3)) << 4"),), (on.GAUSSIAN,),
    ),
)  # fmt: skip

SPECIAL = (
    CudaFault(
        "nan-swallowed", "special values", "quantise", "NaN is read as 0", "nan",
        (quantise(UNPACK, "{ " + UNPACK + " for (int k = 2 * i; k < 2 * i + 2; ++k) "
                  "if ((bits(x[k]) & 0x7FFFFFFFu) > 0x7F800000u) x[k] = 0.0f; }"),),
        (on.NAN_V,),
        hidden="what a NaN reaches is left open where P may round to 0",
    ),
    CudaFault(
        "infinity-finite", "special values", "quantise",
        "infinity is read as the largest number", "nan",
        (quantise(UNPACK, "{ " + UNPACK + " for (int k = 2 * i; k < 2 * i + 2; ++k) "
                  "if ((bits(x[k]) & 0x7FFFFFFFu) == 0x7F800000u) x[k] = from_bits(bits(x[k]) - "
                  "0x10000u); }"),),
        (on.INF_V,),
        hidden="what a NaN reaches is left open where P may round to 0",
    ),
)  # fmt: skip

ROWS = (*MASKS, *SCALES, *IMAGES, *SPECIAL)
"""Faults of this part."""
