"""Faults of where things are: head grouping, tiles, batches, workspaces."""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda.fault import CudaFault, edit

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

ROWS = (
    CudaFault(
        "gqa-modulo", "GQA", "forward",
        "query heads find their key head by modulo instead of division", "o",
        (forward(GROUP, MODULO),), (on.FOUR_HEADS,),
    ),
    CudaFault(
        "gqa-modulo-backward", "GQA", "query",
        "query heads of the backward find their key head by modulo", "dq",
        (query(GROUP, MODULO),), (on.FOUR_HEADS,),
    ),
    CudaFault(
        "gqa-sum-overwritten", "GQA", "key",
        "dK and dV hold the last query head of their group only", "dk",
        (key("barrier_wait(full + 8 * slot, (n / STAGES) & 1);",
             "if (window == window0)\n#pragma unroll\n          for (int i = 0; "
             "i < 32 * PIECES; ++i) me.sums[i] = 0.0f;\n        "
             "barrier_wait(full + 8 * slot, (n / STAGES) & 1);"),),
        (on.GROUPED,),
    ),
    CudaFault(
        "k-transpose-wrong-head", "transposes", "query",
        "dQ uses the transposed keys of another head", "dq",
        (query(K_TRANSPOSED, K_TRANSPOSED.replace("tile", OTHER_HEAD)),), (on.FOUR_HEADS,),
    ),
    CudaFault(
        "k-transpose-next-tile", "transposes", "query",
        "dQ uses the transposed keys of the neighbouring tile", "dq",
        (query(K_TRANSPOSED, K_TRANSPOSED.replace("tile", "(tile ^ 1)")),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "v-wrong-head", "GQA", "query", "dP uses the values of another head", "dq",
        (query("v_rows + tile * ROWS_IMAGE, ROWS_IMAGE",
               f"v_rows + {OTHER_HEAD} * ROWS_IMAGE, ROWS_IMAGE"),),
        (on.FOUR_HEADS,),
    ),
    CudaFault(
        "offset-wrap", "geometry", "forward",
        "the address of K wraps around after 2^12 bytes, as 32-bit ones do after 2^32", "lse",
        (forward(K_TILE, "k_rows + ((tile * ROWS_IMAGE) & 0xFFF), SLOT_K"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "batch-stride", "geometry", "quantise", "every batch reads the first one's tokens", "o",
        (quantise("data[b * batch + h * head", "data[h * head"),), (on.TWO_BATCHES,),
    ),
    CudaFault(
        "wrong-query-half", "geometry", "forward",
        "both halves of a block of queries read each other's rows", "lse",
        (forward("me.q.load(base + AT_Q + half * ROWS_IMAGE);",
                 "me.q.load(base + AT_Q + (1 - half) * ROWS_IMAGE);"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "last-window-lost", "geometry", "key", "the last window of queries is left out", "dk",
        (key(WINDOW_END, f"{WINDOW_END[:-1]} - 1;"),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "first-window-lost", "geometry", "key", "the first window of queries is left out", "dk",
        (tasks("return row <= 0 ? 0 : row / BLOCK;", "return row <= 0 ? 1 : row / BLOCK;"),),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "unwritten-records-read", "memory", "key",
        "records of tiles above the diagonal, which nobody wrote, take part", "dk",
        (
            key("const int here = max(0, min(2, seen));", "const int here = 2;"),
            key("if (visible_tiles(window * BLOCK, nq, nk) > tile) me.window(", "me.window("),
        ),
        (on.GAUSSIAN,),
    ),
    CudaFault(
        "norm-bound-unwritten", "memory", "quantise",
        "the bound that scales dS keeps what its memory held", "dq",
        (quantise(ROW_NORM, ""),), (on.GAUSSIAN,),
    ),
    CudaFault(
        "open-sums-lost", "memory", "key",
        "sums that a stripe leaves open start from 0 in the next", "dk",
        (key("const bool opens = bh0 == kv * repeat && first_block == 0;",
             "const bool opens = true;"),),
        (on.GROUPED,), units=1,
    ),
)  # fmt: skip
"""Faults of this part."""
