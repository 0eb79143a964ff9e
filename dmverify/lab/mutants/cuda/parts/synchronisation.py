"""Faults of waiting: barriers, phases, fences, releases.

Shared memory keeps what the last block on the same multiprocessor left there, so a copy that is not
waited for may find the right bytes of an equal call. Runs alternate with a call on other data.
Where small cases are over before anything can go wrong, the side that is waited for is made late
(``late``): the correct kernel is as late, and is run as often, and must not differ in a bit.
"""

from __future__ import annotations

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.cuda.fault import CudaFault, edit

forward = edit("forward.cu")
query = edit("query.cu")
key = edit("key.cu")
quantise = edit("quantise.cu")
layout = edit("layout.cuh")

LONG = "gaussian/spread-2,heads=1,queries=60,keys=1088,causal=0@0"
BUSY = "gaussian/spread-2,heads=8,kv_heads=8,queries=250,keys=250@0"
PHASE = "((n / STAGES) & 1)"
FULL = f"barrier_wait(full + 8 * slot, {PHASE[1:-1]});"
DELTA_BARRIER = "    named_barrier(1 + half, 128);\n    float4 four"
STORE_BARRIER = "    named_barrier(1 + half, 128);\n    if ((threadIdx.x & 127) == 0) bulk_store("
RECORD_FENCE = "    proxy_fence();\n    if ((threadIdx.x & 127) == 0) bulk_wait_read();"
IMAGE_FENCE = "  proxy_fence();\n  __syncthreads();\n  if (threadIdx.x == 0) {"
HEADER = "const float4 header = load_shared4(base + AT_HEADERS + slot * 16);\n"
RELEASE = "warp_arrive(empty_k + 8 * slot);\n    const float ct"
UNORDERED = (
    "the hardware had the writes in place before the copy engine read them; the memory model does "
    "not promise it"
)

UNMOVED = "the largest delta only widens the range of dS; no bit changed in any run"

# On every multiprocessor, shared memory keeps the deltas of the last block that ran there.
LARGE_DELTA = "offset/v-16,heads=136,kv_heads=136,queries=120,keys=120@0"
WIDE_HEAD = "gaussian/spread-2,heads=1,queries=120,keys=120,head_dim=128@0"
# clock() has 64 bits: without the cast the difference would count from the card's start.
PAUSE = "for (u32 start = clock(); (u32)clock() - start < 40000u;) {}"  # 20 microseconds at 2 GHz
EMPTY = f"barrier_wait(empty + 8 * slot, {PHASE} ^ 1);"
EMPTY_K = "barrier_wait(empty_k + 8 * slot, parity);\n        barrier_expect(full_k"
STAGE = "  INLINE void stage(u32 staging, int tile) {\n"
TOP = "    float top = warp_max(maximum(size[0], size[1]));\n"
CHANNELS = "  if (to.channels) {\n"

WAITS = (
    CudaFault(
        "full-wait-missing-key", "synchronisation", "key",
        "records are used before their copy has arrived", "dk",
        (key(FULL, ""),), (on.GAUSSIAN,), alone=True, racy=1,
    ),
    CudaFault(
        "full-wait-missing-query", "synchronisation", "query",
        "K and V are used before their copy has arrived; the first begins 20 microseconds late",
        "delta",
        (query("    barrier_wait(full + 8 * (tile % STAGES), (tile / STAGES) & 1);\n"
               "    issue_scores",
               "    issue_scores"),),
        (on.GAUSSIAN,), alone=True, racy=1,
        late=(query(EMPTY, f"{EMPTY}\n        if (step == 0) {PAUSE}"),),
    ),
    CudaFault(
        "full-wait-missing-forward", "synchronisation", "forward",
        "the first K is used before its copy has arrived, which begins 20 microseconds late", "lse",
        (forward("barrier_wait(full_k, 0);", ""),), (on.GAUSSIAN,), alone=True, racy=1,
        late=(forward(EMPTY_K, EMPTY_K.replace("barrier_expect", f"if (j == 0) {PAUSE}\n"
                                               "        barrier_expect")),),
    ),
    CudaFault(
        "q-wait-missing-forward", "synchronisation", "forward",
        "Q is read before its copy has arrived", "lse",
        (forward("barrier_wait(full_q, 0);", ""),), (on.GAUSSIAN,), alone=True, racy=1,
    ),
    # At D = 64 the fragments are read again for every tile, whose copy was asked for after Q's.
    CudaFault(
        "q-wait-missing-query", "synchronisation", "query",
        "Q and dO are read before their copy has arrived, which begins 20 microseconds late",
        "delta",
        (query("barrier_wait(full_q, 0);", ""),), (WIDE_HEAD,), alone=True, racy=1,
        late=(query("barrier_expect(full_q,", f"{PAUSE}\n      barrier_expect(full_q,"),),
    ),
    CudaFault(
        "empty-wait-missing-forward", "synchronisation", "forward",
        "K tiles are overwritten before they were used: their scale is read 20 microseconds after "
        "the products", "lse",
        (forward(EMPTY_K, EMPTY_K.partition("\n")[2].lstrip()),),
        (LONG,), alone=True, racy=1, late=(forward(HEADER, f"{PAUSE}\n    {HEADER}"),),
    ),
    # The barrier completes two phases before anybody has waited for the first, and that wait never
    # ends: there is no answer to be wrong.
    CudaFault(
        "empty-wait-missing-query", "synchronisation", "query",
        "tiles are overwritten before they were used", "run",
        (query(EMPTY, ""),), (LONG,), alone=True, racy=1,
    ),
    CudaFault(
        "released-before-read", "synchronisation", "forward",
        "a slot is released, and its scale read 20 microseconds later", "lse",
        (forward(f"{PAUSE}\n    {HEADER}    {RELEASE}",
                 f"warp_arrive(empty_k + 8 * slot);\n    {PAUSE}\n    {HEADER}"
                 "    const float ct"),),
        (LONG,), alone=True, racy=1, late=(forward(HEADER, f"{PAUSE}\n    {HEADER}"),),
    ),
)  # fmt: skip

PHASES = (
    CudaFault(
        "wrong-phase-producer", "synchronisation", "forward",
        "the producer waits for a phase that has not begun", "run",
        (forward("u32 parity = ((j / STAGES) & 1) ^ 1;", "u32 parity = (j / STAGES) & 1;"),),
        (on.GAUSSIAN,), alone=True,
    ),
    CudaFault(
        "wrong-phase-consumer", "synchronisation", "key",
        "the consumers wait for the phase before", "dk",
        (key(FULL, f"barrier_wait(full + 8 * slot, {PHASE} ^ 1);"),), (on.GAUSSIAN,),
        alone=True, racy=1,
    ),
    CudaFault(
        "barrier-count-high", "synchronisation", "all",
        "a slot is free after nine warps have said so, of eight", "run",
        (layout("constexpr int CONSUMER_WARPS = 8;", "constexpr int CONSUMER_WARPS = 9;"),),
        (LONG,), alone=True,
    ),
    CudaFault(
        "barrier-bytes-high", "synchronisation", "forward",
        "the barrier of V expects 16 bytes more than are copied", "run",
        (forward("barrier_expect(full_v + 8 * slot, SLOT_V);",
                 "barrier_expect(full_v + 8 * slot, SLOT_V + 16);"),),
        (on.GAUSSIAN,), alone=True,
    ),
)  # fmt: skip

ORDER = (
    CudaFault(
        "record-barrier-missing", "synchronisation", "query",
        "a record is stored before all warps have written it; three are 20 microseconds late", "dk",
        (query(STORE_BARRIER, STORE_BARRIER.partition("\n")[2]),), (on.GAUSSIAN,),
        alone=True, racy=1,
        late=(query(STAGE, f"{STAGE}    if ((threadIdx.x & 127) >= 32) {PAUSE}\n"),),
    ),
    CudaFault(
        "delta-barrier-missing", "synchronisation", "query",
        "the largest delta is read before all warps have written theirs; three are 20 microseconds "
        "late, and the call before had larger ones", "fences",
        (query(DELTA_BARRIER, DELTA_BARRIER.partition("\n")[2]),), (on.GAUSSIAN,), hidden=UNMOVED,
        alone=True, racy=1, before=LARGE_DELTA,
        late=(query(TOP, f"{TOP}    if ((threadIdx.x & 127) >= 32) {PAUSE}\n"),),
    ),
    CudaFault(
        "image-barrier-missing", "synchronisation", "quantise",
        "images are stored before all warps have written them; all but one are 20 microseconds "
        "late", "o",
        (quantise(IMAGE_FENCE, IMAGE_FENCE.replace("  __syncthreads();\n", "")),), (on.GAUSSIAN,),
        alone=True, racy=1,
        late=(quantise(CHANNELS, f"{CHANNELS}    if (threadIdx.x >= 32) {PAUSE}\n"),),
    ),
    CudaFault(
        "proxy-fence-missing", "synchronisation", "query",
        "records are stored without a fence between the writes and the copy engine", "fences",
        (query(RECORD_FENCE, RECORD_FENCE.partition("\n")[2]),), (BUSY,), hidden=UNORDERED,
        alone=True, racy=4,
    ),
    CudaFault(
        "proxy-fence-missing-quantise", "synchronisation", "quantise",
        "images are stored without a fence between the writes and the copy engine", "fences",
        (quantise(IMAGE_FENCE, IMAGE_FENCE.partition("\n")[2]),), (BUSY,), hidden=UNORDERED,
        alone=True, racy=4,
    ),
)  # fmt: skip

ROWS = (*PHASES, *WAITS, *ORDER)
"""Faults of this part."""
