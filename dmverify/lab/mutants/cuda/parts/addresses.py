"""Faults of where things are: head grouping, tiles, batches, workspaces."""

from __future__ import annotations

from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

forward = edit("forward.cu")
query = edit("query.cu")
key = edit("key.cu")
quantise = edit("quantise.cu")
tokens = edit("tokens.cuh")
tasks = edit("tasks.cuh")

GROUP = "const int kv = bh / (p.heads / p.kv_heads_count);"
MODULO = "const int kv = bh / p.heads * p.kv_heads_count + bh % p.heads % p.kv_heads_count;"
K_TILE = "p.k_rows + tile * ROWS_IMAGE, SLOT_K"
K_TRANSPOSED = "p.k_channels + tile * CHANNELS_IMAGE"
WINDOW_END = "min(2 * end_block, (p.nq + BLOCK - 1) / BLOCK);"
ROW_NORM = "head[2] = mul(root(largest), mul(i ? scale[1] : scale[0], from_bits(0x3F800080u)));"
OTHER_HEAD = "(tile + (task.kv & 1 ? -p.k_tiles : p.k_tiles))"

MUTATIONS = {
    "gqa-modulo": CudaMutation((forward(GROUP, MODULO),)),
    "gqa-modulo-backward": CudaMutation((query(GROUP, MODULO),)),
    "gqa-sum-overwritten": CudaMutation(
        (
            key(
                "ring.await_filled(place);",
                "if (window == task.window0)\n#pragma unroll\n          for (int i = 0; "
                "i < 32 * PIECES; ++i) me.sums[i] = 0.0f;\n        "
                "ring.await_filled(place);",
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
                "p.v_rows + tile * ROWS_IMAGE, ROWS_IMAGE",
                f"p.v_rows + {OTHER_HEAD} * ROWS_IMAGE, ROWS_IMAGE",
            ),
        )
    ),
    "offset-wrap": CudaMutation(
        (forward(K_TILE, "p.k_rows + ((tile * ROWS_IMAGE) & 0xFFF), SLOT_K"),)
    ),
    "batch-stride": CudaMutation((tokens("data[b * batch + h * head", "data[h * head"),)),
    "wrong-query-half": CudaMutation(
        (
            forward(
                "q.load(base + AT_Q + half * ROWS_IMAGE);",
                "q.load(base + AT_Q + (1 - half) * ROWS_IMAGE);",
            ),
        )
    ),
    "last-window-lost": CudaMutation((key(WINDOW_END, f"{WINDOW_END[:-1]} - 1;"),)),
    "first-window-lost": CudaMutation(
        (tasks("return row <= 0 ? 0 : row / BLOCK;", "return row <= 0 ? 1 : row / BLOCK;"),)
    ),
    "unwritten-records-read": CudaMutation(
        (
            key("max(0, min(2, seen - 2 * task.key_block));", "2;"),
            key(
                "if (visible_tiles(window * BLOCK, p.nq, p.nk) > tile)\n          me.window(",
                "me.window(",
            ),
        )
    ),
    "norm-bound-unwritten": CudaMutation((quantise(ROW_NORM, ""),)),
    "open-sums-lost": CudaMutation(
        (
            key(
                "const bool opens = bh0 == kv * repeat && p.first_block == 0;",
                "const bool opens = true;",
            ),
        ),
        units=1,
    ),
}
"""By the mutant's id."""
