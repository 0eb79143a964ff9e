"""Stage ``repeats``: the same bits again: repeated, on streams under load, from replayed graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import (
    Choices,
    Ran,
    Tensors,
    launch,
    options_of,
    place,
    run_public,
)
from dmverify.kernel.launch import Options
from dmverify.lab.acceptance.poison import poisoned
from dmverify.lab.acceptance.session import Session

RUNS = 100
STREAMS = 4
PUBLIC = ("o", "lse", "dq", "dk", "dv")
NAMES = (*PUBLIC, "delta")

# Case without its seed, contract: each head dim, two-sweep and one-sweep modes, both casts.
SUBJECTS: tuple[tuple[str, str], ...] = (
    ("gaussian/spread-2,heads=8,kv_heads=2,queries=1000,keys=1111,head_dim=128", "bundled"),
    (
        "gaussian/spread-4,heads=4,kv_heads=4,queries=777,keys=640,head_dim=64,causal=0",
        "bundled:delta=shifted,ds_cast=zero-sum",
    ),
    ("offset/kv-4,heads=3,kv_heads=1,queries=500,keys=500,head_dim=256", "bundled:delta=stale"),
    (
        "gaussian/spread-1,heads=8,kv_heads=1,queries=900,keys=900,head_dim=64",
        "bundled:delta=associated",
    ),
)


def run(session: Session) -> dict[str, Any]:
    """Every subject in every way; ``ok`` if no bit differed."""
    rows = [row for subject in SUBJECTS for row in _subject(*subject)]
    return {"ok": not any(row["differ"] for row in rows), "rows": rows}


def _subject(case: str, contract: str) -> Iterator[dict[str, Any]]:
    first = generate(f"{case}@0", contract=contract)
    options = options_of(first, Choices())
    tensors = place(first)
    due = launch(tensors, options)
    ways: dict[str, Callable[[], tuple[int, int]]] = {
        "repeat": lambda: _repeated(tensors, options, due),
        "streams under load": lambda: _streams(tensors, options, due),
        "public function": lambda: _public(tensors, options, due),
        "graph with new data": lambda: _graph(f"{case}@1", contract, tensors, options),
    }
    for way, count in ways.items():
        runs, differ = count()
        yield {"case": case, "contract": contract, "way": way, "runs": runs, "differ": differ}


def _repeated(tensors: Tensors, options: Options, due: Ran) -> tuple[int, int]:
    """One run after the other, every second one with poisoned buffers."""
    differ = 0
    for i in range(RUNS):
        if i % 2:
            with poisoned():
                differ += _differs(launch(tensors, options), due)
        else:
            differ += _differs(launch(tensors, options), due)
    return RUNS, differ


def _public(tensors: Tensors, options: Options, due: Ran) -> tuple[int, int]:
    """``dm_attn_func`` and autograd, twice, instead of the launch functions."""
    runs = [run_public(tensors, options) for _ in range(2)]
    return 2, sum(not all(_same(getattr(r, n), getattr(due, n)) for n in PUBLIC) for r in runs)


def _streams(tensors: Tensors, options: Options, due: Ran) -> tuple[int, int]:
    """Several streams at once, with matrix products beside them."""
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]  # type: ignore[no-untyped-call]
    load = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    results: list[Ran] = []
    for i in range(RUNS):
        with torch.cuda.stream(streams[i % STREAMS]):
            if i % STREAMS == 0:
                load @ load
            else:
                results.append(launch(tensors, options))
    torch.cuda.synchronize()
    return len(results), sum(_differs(result, due) for result in results)


def _graph(other: str, contract: str, tensors: Tensors, options: Options) -> tuple[int, int]:
    """A captured graph replayed on other data: it must give what a plain run on them gives."""
    fresh = place(generate(other, contract=contract))
    due = launch(fresh, options)
    held = Tensors(*(x.clone() for x in (tensors.q, tensors.k, tensors.v, tensors.do)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = launch(held, options)
    differ = 0
    for data, wanted in ((fresh, due), (tensors, launch(tensors, options))) * 5:
        for name in ("q", "k", "v", "do"):
            getattr(held, name).copy_(getattr(data, name))
        graph.replay()
        torch.cuda.synchronize()
        differ += _differs(result, wanted)
    return 10, differ


def _differs(got: Ran, due: Ran) -> int:
    """1 if any output differs in a bit."""
    return int(not all(_same(getattr(got, name), getattr(due, name)) for name in NAMES))


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(_bits(a), _bits(b))


def _bits(x: torch.Tensor) -> torch.Tensor:
    whole = x.contiguous()
    return whole.view(torch.int16 if whole.dtype == torch.bfloat16 else torch.int32)
