"""Faults of waiting: barriers, phases, fences, releases.

Shared memory keeps what the last block on the same multiprocessor left there, so a copy that is not
waited for may find the right bytes of an equal call. Runs alternate with a call on other data.
"""

from __future__ import annotations

from dmverify.conformance.faults import cases as on
from dmverify.conformance.faults.cuda.fault import CudaFault, edit

forward = edit("forward.cu")
query = edit("query.cu")
key = edit("key.cu")
quantise = edit("quantise.cu")
layout = edit("layout.cuh")
plumbing = edit("async.cuh")

LONG = "gaussian/spread-2,heads=1,queries=60,keys=1088,causal=0@0"
BUSY = "gaussian/spread-2,heads=8,kv_heads=8,queries=250,keys=250@0"
PHASE = "((n / STAGES) & 1)"
FULL = f"barrier_wait(full + 8 * slot, {PHASE[1:-1]});"
STORE_BARRIER = "    named_barrier(1 + half, 128);\n    if ((threadIdx.x & 127) == 0) bulk_store("
DELTA_BARRIER = "    named_barrier(1 + half, 128);\n    float4 four"
RECORD_FENCE = "    proxy_fence();\n    if ((threadIdx.x & 127) == 0) bulk_wait_read();"
IMAGE_FENCE = "  proxy_fence();\n  __syncthreads();\n  if (threadIdx.x == 0) {"
HEADER = "const float4 header = load_shared4(base + AT_HEADERS + slot * 16);\n"
RELEASE = "warp_arrive(empty_k + 8 * slot);\n    const float ct"
UNORDERED = (
    "the hardware had the writes in place before the copy engine read them; the memory model does "
    "not promise it"
)
SCALE_ONLY = "dS gets the power of two of another call's delta, and codes stay within their set"

WAITS = (
    CudaFault(
        "full-wait-missing-key", "synchronisation", "key",
        "records are used before their copy has arrived", "dk",
        (key(FULL, ""),), (on.GAUSSIAN,), alone=True, racy=1,
    ),
    CudaFault(
        "full-wait-missing-query", "synchronisation", "query",
        "K and V are used before their copy has arrived", "delta",
        (query("    barrier_wait(full + 8 * (tile % STAGES), (tile / STAGES) & 1);\n"
               "    issue_scores",
               "    issue_scores"),),
        (LONG,), alone=True, racy=1,
    ),
    CudaFault(
        "full-wait-missing-forward", "synchronisation", "forward",
        "the first K is used before its copy has arrived, which begins 2 microseconds late", "lse",
        (
            forward("barrier_wait(full_k, 0);", ""),
            forward("barrier_wait(empty_k + 8 * slot, parity);\n        barrier_expect(full_k",
                    "if (j == 0) __nanosleep(2000);\n        barrier_wait(empty_k + 8 * slot, "
                    "parity);\n        barrier_expect(full_k"),
        ),
        (on.GAUSSIAN,), alone=True, racy=1,
    ),
    CudaFault(
        "q-wait-missing-forward", "synchronisation", "forward",
        "Q is read before its copy has arrived", "lse",
        (forward("barrier_wait(full_q, 0);", ""),), (on.GAUSSIAN,), alone=True, racy=1,
    ),
    CudaFault(
        "q-wait-missing-query", "synchronisation", "query",
        "Q and dO are read before their copy has arrived", "delta",
        (query("barrier_wait(full_q, 0);", ""),), (on.GAUSSIAN,), alone=True, racy=1,
    ),
    CudaFault(
        "empty-wait-missing-forward", "synchronisation", "forward",
        "K tiles are overwritten before they were used", "lse",
        (forward("barrier_wait(empty_k + 8 * slot, parity);\n        barrier_expect(full_k",
                 "barrier_expect(full_k"),),
        (LONG,), alone=True, racy=1,
    ),
    CudaFault(
        "empty-wait-missing-query", "synchronisation", "query",
        "tiles are overwritten before they were used", "delta",
        (query(f"barrier_wait(empty + 8 * slot, {PHASE} ^ 1);", ""),), (LONG,), alone=True, racy=1,
    ),
    CudaFault(
        "released-before-read", "synchronisation", "forward",
        "a slot is released, and its scale read 20 microseconds later", "lse",
        (
            forward(f"{HEADER}    {RELEASE}", f"warp_arrive(empty_k + 8 * slot);\n    "
                    f"__nanosleep(20000);\n    {HEADER}    const float ct"),
        ),
        (LONG,), alone=True, racy=1,
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

FENCES = (
    CudaFault(
        "record-barrier-missing", "synchronisation", "query",
        "a record is stored before all warps have written it", "dk",
        (query(STORE_BARRIER, STORE_BARRIER.partition("\n")[2]),), (BUSY,), alone=True, racy=1,
    ),
    CudaFault(
        "delta-barrier-missing", "synchronisation", "query",
        "the largest delta is read before all warps have written theirs", "bits",
        (query(DELTA_BARRIER, DELTA_BARRIER.partition("\n")[2]),), (BUSY,), hidden=SCALE_ONLY,
        alone=True, racy=1,
    ),
    CudaFault(
        "image-barrier-missing", "synchronisation", "quantise",
        "images are stored before all threads have written them", "bits",
        (quantise(IMAGE_FENCE, IMAGE_FENCE.replace("  __syncthreads();\n", "")),), (BUSY,),
        alone=True, racy=1,
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

ROWS = (*PHASES, *WAITS, *FENCES)
"""Faults of this part."""
