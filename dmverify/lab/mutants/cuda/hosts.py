"""Hosts that make one mistake each; ``correctly`` is what they should do.

Each takes a case and the options of a correct call and returns what a caller would get. The
mistakes of streams and graphs are brought out, not waited for: the inputs arrive late on the
caller's stream, and a graph has seen other data before.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from dmverify.conformance.families import generate, parse_case_id
from dmverify.conformance.kernels.bundled_launch import Ran, Tensors, launch, place
from dmverify.kernel.launch import Options, backward, forward, prepare
from dmverify.spec.case import Case

LATE = 100_000_000  # cycles that the inputs are late, 50 ms or more

NAMES = ("q", "k", "v", "do")


def other_data(case: Case) -> Case:
    """The case with inputs of another seed."""
    parts = parse_case_id(case.id)
    return generate(str(replace(parts, seed=parts.seed + 1)), contract=case.contract)


def on_stream(case: Case, options: Options, launched: torch.cuda.Stream | None) -> Ran:
    """A call whose inputs arrive late on a stream of the caller; kernels on another, if given."""
    given = place(case)
    late = Tensors(**{name: torch.zeros_like(getattr(given, name)) for name in NAMES})
    caller = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    with torch.cuda.stream(caller):
        torch.cuda._sleep(LATE)  # type: ignore[no-untyped-call]
        for name in NAMES:
            getattr(late, name).copy_(getattr(given, name))
    with torch.cuda.stream(launched or caller):
        ran = launch(late, options)
    torch.cuda.synchronize()
    return ran


def default_stream(case: Case, options: Options) -> Ran:
    """Kernels run on the default stream while the inputs are on their way on another."""
    return on_stream(case, options, torch.cuda.default_stream())


def caller_stream(case: Case, options: Options) -> Ran:
    """The call on the caller's stream, done right."""
    return on_stream(case, options, None)


def strides_ignored(case: Case, options: Options) -> Ran:
    """Tensors are read in memory order, whatever their strides."""
    given = place(case)
    flat = {}
    for name in NAMES:
        x = getattr(given, name)
        steps = [math.prod(x.shape[i + 1 :]) for i in range(x.ndim)]
        flat[name] = x.as_strided(x.shape, steps, x.storage_offset())
    return launch(Tensors(**flat), options)


def replayed(case: Case, options: Options, *, fresh: bool) -> Ran:
    """A graph captured on other data and replayed; with ``fresh``, on the case's."""
    held = place(other_data(case))
    launch(held, options)  # loads the kernels, which a capture cannot
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ran = launch(held, options)
    given = place(case)
    if fresh:
        for name in NAMES:
            getattr(held, name).copy_(getattr(given, name))
    graph.replay()
    torch.cuda.synchronize()
    return ran


def graph_stale_pointers(case: Case, options: Options) -> Ran:
    """The new tensors are not copied to where the graph reads."""
    return replayed(case, options, fresh=False)


def graph_fresh(case: Case, options: Options) -> Ran:
    """The replay of the graph, done right."""
    return replayed(case, options, fresh=True)


def last_call(case: Case, options: Options) -> Ran:
    """What an earlier call on other data returned."""
    return launch(place(other_data(case)), options)


def statistics_of_last_call(case: Case, options: Options) -> Ran:
    """The forward is right; the backward finds M and l of an earlier call."""
    saved = []
    for one in (other_data(case), case):
        given = place(one)
        shape, operands = prepare(given.q, given.k, given.v, options, backward=True)
        saved.append(forward(shape, operands, options))
    right = saved[1]
    mixed = replace(right, statistics=saved[0].statistics)
    dq, dk, dv, delta, _ = backward(shape, operands, mixed, given.do, options)
    rows = delta.view(shape.batch, shape.heads, -1)[:, :, : shape.nq]
    return Ran(right.out, right.lse, dq, dk, dv, rows)


def softmax_scale_ignored(case: Case, options: Options) -> Ran:
    """The scale is always the usual one."""
    return launch(place(case), replace(options, scale=case.problem.head_dim**-0.5))


def causal_ignored(case: Case, options: Options) -> Ran:
    """The mask is always causal."""
    return launch(place(case), replace(options, causal=True))
