"""The GPU as ``measure`` uses it: streams, graphs and events of torch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from dmverify.lab.bench.measure import Outputs, Runnable, Step

WARM_UPS = 3
CACHE = 1 << 27  # bytes: more than the second-level cache holds
FILLS = 64  # of those bytes: two or three milliseconds


class Cuda:
    """See ``measure.Card``; everything runs on torch's current stream."""

    def __init__(self) -> None:
        self._bytes = torch.empty(CACHE, dtype=torch.uint8, device="cuda")

    def warm_up(self, step: Step) -> None:
        """On a stream of its own, as capturing asks for."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()

    def capture(self, step: Step) -> tuple[Runnable, Outputs]:
        """A CUDA graph of the step, and the memory of the graph that holds its outputs."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                outputs = step()
        finally:
            torch.cuda.synchronize()
        return graph.replay, outputs

    def occupy(self) -> None:
        """Writes to memory for some milliseconds."""
        for _ in range(FILLS):
            self._bytes.zero_()

    def cold(self, run: Runnable, repeats: int) -> list[float]:
        """Event pairs, each waited for before the next run."""
        times = []
        for _ in range(repeats):
            self._bytes.zero_()
            begin, end = event(), event()
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return times

    def busy(self, run: Runnable, repeats: int) -> list[float]:
        """Events between runs; the host waits for the last alone."""
        marks = [event() for _ in range(repeats + 1)]
        marks[0].record()
        for mark in marks[1:]:
            run()
            mark.record()
        marks[-1].synchronize()
        return [a.elapsed_time(b) for a, b in pairwise(marks)]


def event() -> Any:
    """An event that keeps the time."""
    make: Callable[..., Any] = torch.cuda.Event
    return make(enable_timing=True)
