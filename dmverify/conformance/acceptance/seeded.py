"""Seeded faults of the kernel for stage ``flags``: a certificate that no fault breaks says nothing.

Each is one deliberate mistake, an edit of the source before it is compiled.
"""

from __future__ import annotations

from types import MappingProxyType

from dmverify.kernel.build import Edit, Edits

PAIRS = "permute(x_pairs[2 * i], x_pairs[2 * i + 1], {})"
FRAGMENT, NEXT_FRAGMENT = "a[4 * (i >> 1) + 2 * (i & 1)] = ", "a[4 * (i >> 1) + 2 * (i & 1) + 1] = "
VALUE_SCALE = "w[0] = mul(w[0], header.y), w[1] = mul(w[1], header.y);"
REFERENCE = "float factor = pow2(to_int(sub(row[h].reference, next)));"

SEEDED: MappingProxyType[str, Edits] = MappingProxyType(
    {
        "value-scale-dropped": (Edit("forward.cu", VALUE_SCALE, ""),),
        "mask-one-further": (
            Edit("tasks.cuh", "return last - tile * BLOCK;", "return last - tile * BLOCK + 1;"),
        ),
        "mask-top-left": (
            Edit("tasks.cuh", "last = min(last, row + (nk - nq));", "last = min(last, row);"),
        ),
        "rescale-skipped": (Edit("forward.cu", REFERENCE, "float factor = 1.0f;"),),
        "delta-sign": (
            Edit(
                "query.cu",
                "multiply_add(d[i], sdpu, du[h]);",
                "multiply_add(d[i], sdpu, neg(du[h]));",
            ),
        ),
        "fragments-swapped": (
            Edit("query.cu", FRAGMENT + PAIRS.format("0x6420"), FRAGMENT + PAIRS.format("0x7531")),
            Edit(
                "query.cu",
                NEXT_FRAGMENT + PAIRS.format("0x7531"),
                NEXT_FRAGMENT + PAIRS.format("0x6420"),
            ),
        ),
        "neighbour-tile-scale": (
            Edit("query.cu", "pow2(shift_u - shift_p);", "pow2(shift_u - shift_p - (tile & 1));"),
        ),
        "proxy-fence-missing": (
            Edit(
                "query.cu",
                "    proxy_fence();\n    if ((threadIdx.x & 127) == 0) bulk_wait_read();",
                "    if ((threadIdx.x & 127) == 0) bulk_wait_read();",
            ),
        ),
        "last-window-lost": (
            Edit(
                "key.cu",
                "min(2 * end_block, (nq + BLOCK - 1) / BLOCK);",
                "min(2 * end_block, (nq + BLOCK - 1) / BLOCK) - 1;",
            ),
        ),
        "key-mean-skipped": (
            Edit(
                "quantise.cu", "mean[channel] = divide(sum, to_float(n));", "mean[channel] = 0.0f;"
            ),
        ),
    }
)
"""Edits by name: what is wrong, in the words of the tables of faults."""

RACES = ("proxy-fence-missing",)  # may go unseen: what it breaks is a matter of timing
