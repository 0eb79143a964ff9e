"""Faults of waiting: barriers, phases, fences, releases.

Shared memory keeps what the last block on the same multiprocessor left there, so a copy that is not
waited for may find the right bytes of an equal call. Runs alternate with a call on other data.
Where small cases are over before anything can go wrong, the side that is waited for is made late
(``late``): the correct kernel is as late, and is run as often, and must not differ in a bit.
"""

from __future__ import annotations

from dmverify.lab.mutants.catalogue import CASES
from dmverify.lab.mutants.cuda.mutation import CudaMutation, edit

forward = edit("forward.cu")
query = edit("query.cu")
sums = edit("delta.cuh")
ring = edit("ring.cuh")
key = edit("key.cu")
quantise = edit("quantise.cu")
layout = edit("layout.cuh")

EMPTY = "ring.await_free(place);"
FULL = "ring.await_filled(place);"
DELTA_BARRIER = "    named_barrier(1 + half, 128);\n    float4 four"
STORE_BARRIER = "    named_barrier(1 + half, 128);\n    if ((threadIdx.x & 127) == 0) bulk_store("
RECORD_FENCE = "    proxy_fence();\n    if ((threadIdx.x & 127) == 0) bulk_wait_read();"
IMAGE_FENCE = "  proxy_fence();\n  __syncthreads();\n  if (threadIdx.x == 0) {"
HEADER = "const float4 header = load_shared4(base + AT_HEADERS + at.slot * 16);\n"
# clock() has 64 bits: without the cast the difference would count from the card's start.
PAUSE = "for (u32 start = clock(); (u32)clock() - start < 40000u;) {}"  # 20 microseconds at 2 GHz
EMPTY_K = "keys.await_free(at);\n    keys.expect("
RELEASE_K = "keys.release(at);"
RELEASE = "ring.release(place);"
STAGE = "  INLINE void stage(u32 staging, int tile) {\n"
TOP = "    float top = warp_max(maximum(size[0], size[1]));\n"
CHANNELS = "  if (to.channels) {\n"

WAITS = {
    # Waited for after use: copies under way when a CTA ends may meet the barriers of the next one.
    "full-wait-missing-key": CudaMutation(
        (key(FULL, ""), key(RELEASE, f"{FULL}\n        {RELEASE}")),
        alone=True,
        racy=1,
        late=(key(EMPTY, f"{EMPTY}\n          if (window == task.window0) {PAUSE}"),),
    ),
    "full-wait-missing-query": CudaMutation(
        (
            sums(
                "    ring.await_filled(at);\n    issue_scores",
                "    issue_scores",
            ),
        ),
        alone=True,
        racy=1,
        late=(query(EMPTY, f"{EMPTY}\n        if (step == 0) {PAUSE}"),),
    ),
    "full-wait-missing-forward": CudaMutation(
        (
            forward(
                "keys.await_filled(at);\n    take_turn();\n    wgmma",
                "take_turn();\n    wgmma",
            ),
        ),
        alone=True,
        racy=1,
        late=(
            forward(
                EMPTY_K,
                EMPTY_K.replace("keys.expect", f"if (j == 0) {PAUSE}\n    keys.expect"),
            ),
        ),
    ),
    "q-wait-missing-forward": CudaMutation(
        (forward("barrier_wait(bars.full_q, 0);", ""),),
        alone=True,
        racy=1,
        late=(forward("barrier_expect(bars.full_q,", f"{PAUSE}\n  barrier_expect(bars.full_q,"),),
    ),
    # At D = 64 the fragments are read again for every tile, whose copy was asked for after Q's.
    "q-wait-missing-query": CudaMutation(
        (query("barrier_wait(full_q, 0);", ""),),
        alone=True,
        racy=1,
        late=(query("barrier_expect(full_q,", f"{PAUSE}\n      barrier_expect(full_q,"),),
    ),
    "empty-wait-missing-forward": CudaMutation(
        (forward(EMPTY_K, EMPTY_K.partition("\n")[2].lstrip()),),
        alone=True,
        racy=1,
        late=(forward(HEADER, f"{PAUSE}\n    {HEADER}"),),
    ),
    # The barrier completes two phases before anybody has waited for the first, and that wait never
    # ends: there is no answer to be wrong.
    "empty-wait-missing-query": CudaMutation((query(EMPTY, ""),), alone=True, racy=1),
    # A slot is free once both warpgroups have released it. The delay passes the turn at once: else
    # the second one, whose rows are padding here, would release and read last.
    "released-before-read": CudaMutation(
        (
            forward(f"pass_turn();\n    {PAUSE}", f"pass_turn();\n    {RELEASE_K}\n    {PAUSE}"),
            forward(f"q.keep();\n    {RELEASE_K}", "q.keep();"),
        ),
        alone=True,
        racy=1,
        late=(
            forward(f"pass_turn();\n    {RELEASE_K}\n    const", f"{RELEASE_K}\n    const"),
            forward(HEADER, f"pass_turn();\n    {PAUSE}\n    {HEADER}"),
        ),
    ),
}

PHASES = {
    "wrong-phase-producer": CudaMutation(
        (ring("at.parity ^ 1);", "at.parity);"),),
        alone=True,
    ),
    "wrong-phase-consumer": CudaMutation(
        (key(FULL, "barrier_wait(ring.filled(place), place.parity ^ 1);"),), alone=True, racy=1
    ),
    "barrier-count-high": CudaMutation(
        (layout("constexpr int GROUP_WARPS = 4;", "constexpr int GROUP_WARPS = 5;"),),
        alone=True,
    ),
    "barrier-bytes-high": CudaMutation(
        (
            forward(
                "values.expect(at, SLOT_V);",
                "values.expect(at, SLOT_V + 16);",
            ),
        ),
        alone=True,
    ),
}

ORDER = {
    "record-barrier-missing": CudaMutation(
        (query(STORE_BARRIER, STORE_BARRIER.partition("\n")[2]),),
        alone=True,
        racy=1,
        late=(query(STAGE, f"{STAGE}    if ((threadIdx.x & 127) >= 32) {PAUSE}\n"),),
    ),
    "delta-barrier-missing": CudaMutation(
        (sums(DELTA_BARRIER, DELTA_BARRIER.partition("\n")[2]),),
        alone=True,
        racy=1,
        before=CASES["large-delta"],
        late=(sums(TOP, f"{TOP}    if ((threadIdx.x & 127) >= 32) {PAUSE}\n"),),
    ),
    "image-barrier-missing": CudaMutation(
        (quantise(IMAGE_FENCE, IMAGE_FENCE.replace("  __syncthreads();\n", "")),),
        alone=True,
        racy=1,
        late=(quantise(CHANNELS, f"{CHANNELS}    if (threadIdx.x >= 32) {PAUSE}\n"),),
    ),
    "proxy-fence-missing": CudaMutation(
        (query(RECORD_FENCE, RECORD_FENCE.partition("\n")[2]),), alone=True, racy=4
    ),
    "proxy-fence-missing-quantise": CudaMutation(
        (quantise(IMAGE_FENCE, IMAGE_FENCE.partition("\n")[2]),), alone=True, racy=4
    ),
}

MUTATIONS = {**PHASES, **WAITS, **ORDER}
"""By the mutant's id."""
