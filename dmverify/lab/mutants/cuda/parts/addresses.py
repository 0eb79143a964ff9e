"""Faults of where things are: head grouping, tiles, batches, workspaces."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

forward = edit("forward.cu")
query = edit("query.cu")
key = edit("key.cu")
quantise = edit("quantise.cu")
tasks = edit("tasks.cuh")

GROUP = "const int kv = bh / (heads / kv_heads_count);"
MODULO = "const int kv = bh / heads * kv_heads_count + bh % heads % kv_heads_count;"
K_TILE = "k_rows + tile * ROWS_IMAGE, SLOT_K"
K_TRANSPOSED = "k_channels + tile * CHANNELS_IMAGE"
WINDOW_END = "min(2 * end_block, (nq + BLOCK - 1) / BLOCK);"
ROW_NORM = "head[2] = mul(root(largest), mul(i ? scale[1] : scale[0], from_bits(0x3F800080u)));"
OTHER_HEAD = "(tile + (kv & 1 ? -k_tiles : k_tiles))"

MUTATIONS = {
    "gqa-modulo": CudaMutation((forward(GROUP, MODULO),)),
    "gqa-modulo-backward": CudaMutation((query(GROUP, MODULO),)),
    "gqa-sum-overwritten": CudaMutation(
        (
            key(
                "barrier_wait(full + 8 * slot, place.parity);",
                "if (window == window0)\n#pragma unroll\n          for (int i = 0; "
                "i < 32 * PIECES; ++i) me.sums[i] = 0.0f;\n        "
                "barrier_wait(full + 8 * slot, place.parity);",
            ),
        )
    ),
    "k-transpose-wrong-head": CudaMutation(
        (query(K_TRANSPOSED, K_TRANSPOSED.replace("tile", OTHER_HEAD)),)
    ),
    "k-transpose-next-tile": CudaMutation(
        (query(K_TRANSPOSED, K_TRANSPOSED.replace("tile", "(tile ^ 1)")),)
    ),
    "v-wrong-head": CudaMutation(
        (
            query(
                "v_rows + tile * ROWS_IMAGE, ROWS_IMAGE",
                f"v_rows + {OTHER_HEAD} * ROWS_IMAGE, ROWS_IMAGE",
            ),
        )
    ),
    "offset-wrap": CudaMutation(
        (forward(K_TILE, "k_rows + ((tile * ROWS_IMAGE) & 0xFFF), SLOT_K"),)
    ),
    "batch-stride": CudaMutation((quantise("data[b * batch + h * head", "data[h * head"),)),
    "wrong-query-half": CudaMutation(
        (
            forward(
                "me.q.load(base + AT_Q + half * ROWS_IMAGE);",
                "me.q.load(base + AT_Q + (1 - half) * ROWS_IMAGE);",
            ),
        )
    ),
    "last-window-lost": CudaMutation((key(WINDOW_END, f"{WINDOW_END[:-1]} - 1;"),)),
    "first-window-lost": CudaMutation(
        (tasks("return row <= 0 ? 0 : row / BLOCK;", "return row <= 0 ? 1 : row / BLOCK;"),)
    ),
    "unwritten-records-read": CudaMutation(
        (
            key("max(0, min(2, seen - 2 * key_block));", "2;"),
            key("if (visible_tiles(window * BLOCK, nq, nk) > tile) me.window(", "me.window("),
        )
    ),
    "norm-bound-unwritten": CudaMutation((quantise(ROW_NORM, ""),)),
    "open-sums-lost": CudaMutation(
        (
            key(
                "const bool opens = bh0 == kv * repeat && first_block == 0;",
                "const bool opens = true;",
            ),
        ),
        units=1,
    ),
}
"""By the mutant's id."""
