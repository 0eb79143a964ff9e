"""``dmverify lab small [WAY [HEAD_DIM]]``: for compute-sanitizer.

Small cases of every head dim, or of one, and every kind of mode; lengths at which every ring of
slots comes round again.

| way | build and run |
|---|---|
| release | as users run it |
| written | every buffer is first filled by an ordinary kernel |
| warps | the assembler does not optimise, so that every warp barrier stays an instruction |
| lanes | each lane arrives on the barriers that free a slot, without a warp barrier before; of |
| | the four lanes that agree on a row's top key, the one that reads it stores it |
| headers | F and B read a tile's scales from global memory, not from the slot |
"""

from __future__ import annotations

from types import MappingProxyType

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import Choices, launch, options_of, place
from dmverify.kernel.build import HEAD_DIMS, Edit
from dmverify.lab.acceptance.poison import poisoned

CONTRACTS = (
    "bundled",
    "bundled:delta=shifted,ds_cast=zero-sum",
    "bundled:delta=stale",
    "bundled:delta=associated",
)
SIZES = ("queries=129,keys=193,causal=1", "queries=321,keys=705,causal=0")

ONE_LANE = "__syncwarp();\n  if ((threadIdx.x & 31) == 0) barrier_arrive(bar);"
SLOT = "load_shared4(base + AT_HEADERS + at.slot * 16);"
KEEPS_KEY = "if (any && b > row[h].top"
LANES = (
    Edit("async.cuh", ONE_LANE, "barrier_arrive(bar);"),
    Edit("layout.cuh", "GROUP_WARPS = 4;", "GROUP_WARPS = 128;"),
    Edit("window.cuh", KEEPS_KEY, f"{KEEPS_KEY} && (threadIdx.x & 3) == 0"),
)
HEADERS = (
    Edit("rows.cuh", "  RowsOperand q, g;", "  RowsOperand q, g;\n  const float4* heads;"),
    Edit("delta.cuh", SLOT, "heads[tile];"),
    Edit("query.cu", SLOT, "heads[tile];"),
    Edit(
        "query.cu",
        "me.base = base, me.ring",
        "me.heads = p.kv_heads + (i64)task.kv * p.k_tiles, me.base = base, me.ring",
    ),
    Edit("forward.cu", "  RowsOperand q;", "  RowsOperand q;\n  const float4* heads;"),
    Edit("forward.cu", SLOT, "heads[tile];"),
    Edit(
        "forward.cu",
        "me.base = base, me.keys",
        "me.heads = p.kv_heads + (i64)task.kv * p.k_tiles, me.base = base, me.keys",
    ),
)
WAYS: MappingProxyType[str, Choices] = MappingProxyType(
    {
        "release": Choices(),
        "written": Choices(),
        "warps": Choices(flags=("--ptxas-options=-O0",)),
        "lanes": Choices(edits=LANES),
        "headers": Choices(edits=HEADERS),
    }
)


def run_way(way: str, head_dims: tuple[int, ...] = HEAD_DIMS) -> None:
    """Runs the cases in one of ``WAYS``; whoever watches says what is wrong."""
    if way == "written":
        with poisoned(guard=0):
            run(WAYS[way], head_dims)
    else:
        run(WAYS[way], head_dims)


def run(choices: Choices, head_dims: tuple[int, ...] = HEAD_DIMS) -> None:
    """Every case, in stripes of one unit."""
    for case_id, contract in cases(head_dims):
        case = generate(case_id, contract=contract)
        launch(place(case), options_of(case, choices), units=1).outputs()


def cases(head_dims: tuple[int, ...] = HEAD_DIMS) -> list[tuple[str, str]]:
    """Case and contract of each."""
    return [
        (f"gaussian/spread-2,heads=2,kv_heads=1,{size},head_dim={d}@0", contract)
        for d in head_dims
        for contract in CONTRACTS
        for size in SIZES
    ]
