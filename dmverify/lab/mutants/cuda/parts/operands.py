"""Faults of the operands: masks, scales, K's mean, images, special values of inputs."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

forward = edit("forward.cu")
quantise = edit("quantise.cu")
query = edit("query.cu")
tasks = edit("tasks.cuh")
layout = edit("layout.cuh")
sums = edit("delta.cuh")
window = edit("window.cuh")
tokens = edit("tokens.cuh")
means = edit("means.cuh")

LIMIT = "return last - tile * BLOCK;"
LAST_KEY = "int last = nk - 1;"
HEADER = "head[ROLE == QUERY || ROLE == KEY ? 0 : 1] = i ? scale[1] : scale[0];"
HEADER_AT = HEADER[: HEADER.index("i ?")]
K_HEADER = "p.kv_heads + tile, 16, keys.filled(at)"
INVERSE_SCALE = "inverse[i] = zero ? 1.0f : divide(448.0f, clamped);"
MEAN = "return divide(sum, to_float(n));"
UNPACK = "x[2 * i] = bf16_low(w[i]), x[2 * i + 1] = bf16_high(w[i]);"
KEY_IMAGE = "if constexpr (Ways<ROLE>::HALVES)\n      transpose<KeyOrder>"
Q_SCALE = "p.q_heads[(i64)task.bh * p.q_blocks * 2 + block + half].x"
LARGEST = "float b = any ? multiply_add(m[h], ct, neg(OFFSET)) : 0.0f;"
HIDDEN = "hidden ? 0.0f : ex2(multiply_add(s[4 * j + i], ct, neg(window.b[i >> 1])))"
SENTINEL = "-14426.95f"  # -1e4 in base 2

MASKS = {
    "mask-top-left": CudaMutation(
        (tasks("last = min(last, row + (nk - nq));", "last = min(last, row);"),)
    ),
    "mask-one-further": CudaMutation((tasks(LIMIT, "return last - tile * BLOCK + 1;"),)),
    "mask-one-nearer": CudaMutation((tasks(LIMIT, "return last - tile * BLOCK - 1;"),)),
    "mask-tail-keys": CudaMutation(
        (tasks(LAST_KEY, "int last = (nk + BLOCK - 1) / BLOCK * BLOCK - 1;"),)
    ),
    "mask-finite-sentinel": CudaMutation(
        (
            window(
                LARGEST,
                f"{LARGEST} if (MASKED && any && limit[h] < BLOCK - 1) "
                f"b = maximum(b, sub({SENTINEL}, OFFSET));",
            ),
            window(HIDDEN, HIDDEN.replace("0.0f", f"ex2(sub({SENTINEL}, window.b[i >> 1]))")),
        )
    ),
    "mask-backward-missing": CudaMutation(
        (
            query(
                "tile < own_tiles; ++tile, at.next()) me.second<true>",
                "tile < own_tiles; ++tile, at.next()) me.second<false>",
            ),
            sums("answer<true, 0>", "answer<false, 0>"),
        )
    ),
    "diagonal-tile-skipped": CudaMutation(
        (tasks("last = min(nk, row + BLOCK + nk - nq);", "last = min(nk, row + nk - nq);"),)
    ),
    "dead-rows-nan": CudaMutation(
        (forward("inverse = dead ? 0.0f : rcp(lh);", "inverse = rcp(lh);"),)
    ),
    "dead-rows-lse-zero": CudaMutation(
        (forward("end.dead ? from_bits(0xFF800000u)", "end.dead ? 0.0f"),)
    ),
}

SCALES = {
    "q-scale-dropped": CudaMutation((forward(f"mul({Q_SCALE}, p.c)", "p.c"),)),
    "k-scale-dropped": CudaMutation(
        (forward("const float ct = mul(sq, header.x);", "const float ct = sq;"),)
    ),
    "value-scale-dropped": CudaMutation(
        (forward("w[h] = mul(window.weight[h], header.y);", "w[h] = window.weight[h];"),)
    ),
    "do-scale-dropped": CudaMutation((query("me.sg = head.y", "me.sg = 1.0f"),)),
    "q-scale-neighbour": CudaMutation(
        (
            forward(
                Q_SCALE,
                Q_SCALE.replace("block + half", "2 * p.q_blocks - 1 - block - half"),
            ),
        )
    ),
    "k-scale-neighbour": CudaMutation((forward(K_HEADER, K_HEADER.replace("tile", "(tile ^ 1)")),)),
    "v-scale-neighbour": CudaMutation(
        (quantise(HEADER, f"{HEADER_AT}(ROLE == VALUE) != (i != 0) ? scale[1] : scale[0];"),)
    ),
    "do-scale-neighbour": CudaMutation(
        (
            query(
                "me.sg = head.y",
                "me.sg = p.q_heads[((i64)task.bh + 1) * p.q_blocks * 2 - 1 "
                "- me.first_row / BLOCK].y",
            ),
        )
    ),
    "k-scale-transposed": CudaMutation(
        (
            forward(
                K_HEADER,
                "p.kv_heads + (i64)j * (p.batch_heads / (p.heads / p.kv_heads_count)) + task.kv, "
                "16, keys.filled(at)",
            ),
        )
    ),
    "v-scale-inverse": CudaMutation(
        (
            quantise(
                HEADER,
                f"{HEADER_AT}divide(ROLE == VALUE ? 1.0f : i ? scale[1] : scale[0], "
                "ROLE == VALUE ? (i ? scale[1] : scale[0]) : 1.0f);",
            ),
        )
    ),
    "v-scale-first-reused": CudaMutation(
        (quantise(HEADER, f"{HEADER_AT}i && ROLE != VALUE ? scale[1] : scale[0];"),)
    ),
    "scale-power-of-two": CudaMutation(
        (quantise(HEADER, f"{HEADER_AT}from_bits(bits(i ? scale[1] : scale[0]) & 0x7F800000u);"),)
    ),
    "scale-block-of-128": CudaMutation(
        (quantise("if (!HALVES) top[0] = top[1]", "top[0] = top[1]"),)
    ),
    "k-and-v-scale-swapped": CudaMutation(
        (
            forward(
                "w[h] = mul(window.weight[h], header.y);",
                "w[h] = mul(window.weight[h], header.x);",
            ),
        )
    ),
    "zero-block-nan": CudaMutation(
        (quantise(INVERSE_SCALE, "inverse[i] = divide(448.0f, top[i]);"),)
    ),
    "key-mean-skipped": CudaMutation((means(MEAN, "return 0.0f;"),)),
    "key-mean-bf16": CudaMutation(
        (means(MEAN, "return bf16_low(to_bf16x2(divide(sum, to_float(n)), 0.0f));"),)
    ),
}

IMAGES = {
    "v-permutation": CudaMutation(
        (quantise(KEY_IMAGE, KEY_IMAGE.replace("Ways<ROLE>::HALVES", "ROLE == KEY")),)
    ),
    "k-transpose-permutation": CudaMutation(
        (quantise(KEY_IMAGE, KEY_IMAGE.replace("Ways<ROLE>::HALVES", "ROLE == VALUE")),)
    ),
    "query-permutation": CudaMutation(
        (quantise("transpose<QueryOrder>(rows", "transpose<KeyOrder>(rows"),)
    ),
    "transpose-byte-pairs": CudaMutation(
        (quantise("permute(a, b, pairs[i])", "permute(b, a, pairs[i])"),)
    ),
    "swizzle-row-bits": CudaMutation(
        (layout("(chunk ^ ((row >> 1) & 3)) << 4", "(chunk ^ (row & 3)) << 4"),)
    ),
}

SPECIAL = {
    "nan-swallowed": CudaMutation(
        (
            tokens(
                UNPACK,
                "{ " + UNPACK + " for (int k = 2 * i; k < 2 * i + 2; ++k) "
                "if ((bits(x[k]) & 0x7FFFFFFFu) > 0x7F800000u) x[k] = 0.0f; }",
            ),
        )
    ),
    "infinity-finite": CudaMutation(
        (
            tokens(
                UNPACK,
                "{ " + UNPACK + " for (int k = 2 * i; k < 2 * i + 2; ++k) "
                "if ((bits(x[k]) & 0x7FFFFFFFu) == 0x7F800000u) x[k] = from_bits(bits(x[k]) - "
                "0x10000u); }",
            ),
        )
    ),
}

MUTATIONS = {**MASKS, **SCALES, **IMAGES, **SPECIAL}
"""By the mutant's id."""
