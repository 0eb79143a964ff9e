"""Stage ``api``: what users call gives the specification's bits, in every way of calling it.

| way | compared with |
|---|---|
| plain, aot_eager, inductor | the specification: O, LSE and the gradients of autograd |
| no gradient | the same O and LSE |
| strided | the specification: channels and tokens apart in memory, a misaligned start |
| packed | `dm_attn_func` on each sequence alone, gradients too |
| expanded | plain calls on copies: k and v of one token or one head, repeated by stride 0 |
| empty | zeros and -inf: no batch, no queries, no keys |
| stream | plain calls: a side stream, beside work on the default stream |
| graph | plain calls, on data that the captured graph had not seen |
| operators | ``torch.library.opcheck``: schema, fake tensors, autograd, tracing |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import (
    Choices,
    Tensors,
    on_host,
    options_of,
    place,
)
from dmverify.conformance.kernels.certify import variants_of
from dmverify.kernel import ops
from dmverify.kernel.api import dm_attn_func
from dmverify.kernel.build import BuildVariant, build
from dmverify.kernel.varlen import dm_attn_varlen_func
from dmverify.lab.acceptance.poison import poisoned
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.shipped import differing, expected
from dmverify.spec.case import Case, Outputs
from dmverify.spec.contracts import get_contract

DEVICE = "cuda"
NAMES = ("o", "lse", "dq", "dk", "dv")
BACKENDS = ("aot_eager", "inductor")
REPLAYS = 6

# Case without its seed, contract: each head dim, mask, cast, and kind of mode.
SUBJECTS: tuple[tuple[str, str], ...] = (
    ("gaussian/spread-2,heads=6,kv_heads=2,queries=200,keys=333,head_dim=64", "bundled"),
    (
        "gaussian/spread-4,heads=2,kv_heads=2,queries=129,keys=65,head_dim=128,causal=0",
        "bundled:delta=shifted,ds_cast=zero-sum",
    ),
    (
        "offset/kv-4,heads=3,kv_heads=1,queries=100,keys=150,head_dim=256",
        "bundled:delta=associated",
    ),
    (
        "gaussian/spread-1,heads=2,kv_heads=1,queries=70,keys=70,head_dim=64",
        "bundled:delta=stale,ds_cast=zero-sum",
    ),
    ("gaussian/spread-1,heads=2,kv_heads=1,queries=65,keys=64,head_dim=128", "bundled"),
)
PACK = ((200, 0, 129, 1, 64), (333, 70, 65, 1, 0))  # lengths of queries and of keys

Call = Callable[..., Any]
Row = dict[str, Any]


def run(session: Session) -> Row:
    """Every way; ``ok`` if no number differs. New rows only while there is time."""
    rows: list[Row] = []
    for row in _rows(session):
        rows.append(row)
        if session.over:
            break
    wrong = [row for row in rows if row["differ"]]
    return {"ok": not (wrong or session.over), "run": len(rows), "wrong": wrong, "rows": rows}


def _rows(session: Session) -> Iterator[Row]:
    cases = [generate(f"{name}@0", contract=contract) for name, contract in SUBJECTS]
    list(session.pool.map(build, _variants(cases)))
    answers = [session.pool.submit(expected, case) for case in cases]
    for case, answer in zip(cases, answers, strict=True):
        yield from _against_specification(case, answer.result())
    for case in cases[:3]:
        for way, function in CALLS.items():
            yield _guarded(way, case, partial(function, case))


def _guarded(way: str, case: Case, function: Callable[[], tuple[Any, ...]]) -> Row:
    """One way; an exception is its failure, and the next way still runs."""
    try:
        return _row(way, case, *function())
    except Exception as error:
        return _row(way, case, 0, 1, f"{type(error).__name__}: {error}"[:1000])


def _variants(cases: list[Case]) -> list[BuildVariant]:
    """What will run, to be compiled at once; without gradients the forward is that of matched."""
    found: set[BuildVariant] = set()
    for case in cases:
        options = options_of(case, Choices())
        for one in (options, replace(options, mode="matched")):
            found |= set(variants_of(one, case.problem.head_dim))
    return sorted(found, key=str)


def _row(way: str, case: Case, compared: int, differ: int, note: str = "") -> Row:
    name = {"case": case.id, "contract": case.contract, "way": way}
    return name | {"compared": compared, "differ": differ, "note": note}


def _against_specification(case: Case, due: Outputs) -> Iterator[Row]:
    tensors, choices = place(case, device=DEVICE), _choices(case)
    strided = Tensors(*(_apart(x) for x in _four(tensors)))

    def compare(call: Call, held: Tensors) -> Callable[[], tuple[int, int]]:
        return lambda: _differ(_call(call, held, choices), due)

    for way, call in _ways():
        yield _guarded(way, case, compare(call, tensors))
    yield _guarded("strided", case, compare(dm_attn_func, strided))
    yield _guarded("no gradient", case, lambda: _differ(_forward(tensors, choices), due))


@torch.no_grad()
def _forward(tensors: Tensors, choices: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """O and LSE of a call that keeps nothing for a backward."""
    o, lse = dm_attn_func(tensors.q, tensors.k, tensors.v, return_lse=True, **choices)
    return o, lse


def _ways() -> Iterator[tuple[str, Call]]:
    yield "plain", dm_attn_func
    for backend in BACKENDS:
        torch.compiler.reset()
        yield backend, torch.compile(dm_attn_func, fullgraph=True, backend=backend)


def _choices(case: Case) -> dict[str, Any]:
    """The public function's words for a case."""
    contract, problem = get_contract(case.contract), case.problem
    return {
        "causal": problem.causal,
        "mode": contract.delta,
        "ds_cast": contract.ds_cast,
        "centre_k": contract.centre_k,
        "normaliser": contract.normaliser,
        "softmax_scale": problem.scale,
    }


def _four(tensors: Tensors) -> tuple[torch.Tensor, ...]:
    return tensors.q, tensors.k, tensors.v, tensors.do


def _call(call: Call, tensors: Tensors, choices: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """O, LSE, dQ, dK, dV; the tensors keep their strides."""
    inputs = [x.detach().requires_grad_() for x in _four(tensors)[:3]]
    o, lse = call(*inputs, return_lse=True, **choices)
    return o, lse, *torch.autograd.grad(o, inputs, tensors.do)


def _apart(x: torch.Tensor) -> torch.Tensor:
    """Copies numbers with channels two apart, from an odd address, among NaN."""
    base = torch.full((2 * x.numel() + 1,), torch.nan, dtype=x.dtype, device=x.device)
    view = base[1:].view(*x.shape[:3], x.shape[3], 2)[..., 0]
    return view.copy_(x)


def _differ(got: tuple[torch.Tensor, ...], due: Outputs) -> tuple[int, int]:
    """Numbers compared, and how many differ in a bit."""
    pairs = [(on_host(x), getattr(due, name)) for x, name in zip(got, NAMES, strict=False)]
    return sum(a.size for a, _ in pairs), sum(differing(a, b) for a, b in pairs)


def _unequal(got: tuple[torch.Tensor, ...], due: tuple[torch.Tensor, ...]) -> tuple[int, int]:
    pairs = [(on_host(a), on_host(b)) for a, b in zip(got, due, strict=True)]
    return sum(a.size for a, _ in pairs), sum(differing(a, b) for a, b in pairs)


def _packed(case: Case) -> tuple[int, int]:
    """A pack of sequences of the case's kind, and each alone."""
    choices, starts = _choices(case), [[0, *np.cumsum(n).tolist()] for n in PACK]
    draw = torch.Generator(device=DEVICE).manual_seed(0)
    heads, kv_heads, d = case.problem.heads, case.problem.kv_heads, case.problem.head_dim
    sizes = ((sum(PACK[0]), heads), *[(sum(PACK[1]), kv_heads)] * 2, (sum(PACK[0]), heads))
    *inputs, do = (
        torch.randn(*size, d, generator=draw, device=DEVICE).to(torch.bfloat16) for size in sizes
    )
    leaves = [x.clone().requires_grad_() for x in inputs]
    o, lse = dm_attn_varlen_func(*leaves, *starts, return_lse=True, **choices)
    got = o, lse.T, *torch.autograd.grad(o, leaves, do)
    lengths = zip((*inputs, do), (*PACK, *PACK[::-1]), strict=True)
    parts = (torch.split(x[None], list(n), 1) for x, n in lengths)
    alone = [_call(dm_attn_func, Tensors(*part), choices) for part in zip(*parts, strict=True)]
    rows = [(o[0], lse[0].T, *(g[0] for g in grads)) for o, lse, *grads in alone]
    return _unequal(got, tuple(torch.cat(part) for part in zip(*rows, strict=True)))


def _expanded(case: Case) -> tuple[int, int]:
    """Tokens and heads of stride 0, against copies of the same numbers."""
    tensors, choices = place(case, device=DEVICE), _choices(case)
    compared = differ = 0
    for part in ((slice(None), slice(1)), (slice(None), slice(None), slice(1))):
        k, v = (x[part].expand(x.shape) for x in (tensors.k, tensors.v))
        copied = Tensors(tensors.q, k.contiguous(), v.contiguous(), tensors.do)
        got = _call(dm_attn_func, Tensors(tensors.q, k, v, tensors.do), choices)
        more, other = _unequal(got, _call(dm_attn_func, copied, choices))
        compared, differ = compared + more, differ + other
    return compared, differ


def _empty(case: Case) -> tuple[int, int]:
    """Checks calls without batch, queries or keys: O and gradients are zero, the LSE is -inf."""
    choices, problem = _choices(case), case.problem
    compared = differ = 0
    for batch, nq, nk in ((0, 5, 7), (2, 0, 7), (2, 5, 0), (2, 0, 0)):
        sizes = ((nq, problem.heads), *[(nk, problem.kv_heads)] * 2, (nq, problem.heads))
        tensors = Tensors(
            *(
                torch.ones(batch, n, h, problem.head_dim, dtype=torch.bfloat16, device=DEVICE)
                for n, h in sizes
            )
        )
        got = _call(dm_attn_func, tensors, choices)
        q, k, v, _ = _four(tensors)
        none = torch.full((batch, problem.heads, nq), -torch.inf, device=DEVICE)
        due = torch.zeros_like(q), none, *(torch.zeros_like(x) for x in (q, k, v))
        more, other = _unequal(got, due)
        shapes = sum(a.shape != b.shape for a, b in zip(got, due, strict=True))
        compared, differ = compared + more + len(due), differ + other + shapes
    return compared, differ


def _stream(case: Case) -> tuple[int, int]:
    """On a stream of its own, while the default stream is busy."""
    tensors, choices = place(case, device=DEVICE), _choices(case)
    due = _call(dm_attn_func, tensors, choices)
    load = torch.randn(4096, 4096, device=DEVICE)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    load @ load
    with torch.cuda.stream(side):
        got = _call(dm_attn_func, tensors, choices)
    torch.cuda.synchronize()
    return _unequal(got, due)


def _graph(case: Case) -> tuple[int, int]:
    """One capture of both passes, replayed on other data by turns."""
    choices, names = _choices(case), ("q", "k", "v", "do")
    stem = case.id.split("@")[0]
    others = [
        place(generate(f"{stem}@{seed}", contract=case.contract), device=DEVICE) for seed in (1, 2)
    ]
    wanted = [_call(dm_attn_func, data, choices) for data in others]  # also loads the kernels
    held = Tensors(*(x.clone() for x in _four(place(case, device=DEVICE))))
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.graph(graph, stream=side):
        result = _call(dm_attn_func, held, choices)
    compared = differ = 0
    for i in range(REPLAYS):
        for name in names:
            getattr(held, name).copy_(getattr(others[i % 2], name))
        graph.replay()
        torch.cuda.synchronize()
        more, other = _unequal(result, wanted[i % 2])
        compared, differ = compared + more, differ + other
    return compared, differ


def _operators(case: Case) -> tuple[int, int, str]:
    """``opcheck`` of each operator; counts checks, not numbers."""
    tensors, chosen = place(case, device=DEVICE), _choices(case)
    q, k, v, do = _four(tensors)
    scale, causal = float(chosen["softmax_scale"]), chosen["causal"]
    choices = (causal, chosen["mode"], chosen["ds_cast"] == "zero-sum", scale)
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    with poisoned(keep=_clear, guard=0):  # opcheck also compares what no kernel needs to write
        o, _, kept = ops.attention_forward(q, k, v, *choices)
        reports = (
            _opcheck(ops.attention, (q, k, v, causal, scale)),
            _opcheck(ops.attention_forward, (*leaves, *choices)),
            _opcheck(ops.attention_backward, (do, o, kept, k.shape[1], k.shape[2], *choices)),
        )
    results = [result for report in reports for result in report.values()]
    failed = [result for result in results if result != "SUCCESS"]
    return len(results), len(failed), "; ".join(map(str, failed))[:500]


def _opcheck(operator: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    return torch.library.opcheck(operator, arguments, raise_exception=False)


def _clear(buffer: torch.Tensor) -> None:
    buffer.zero_()


CALLS: dict[str, Callable[[Case], tuple[Any, ...]]] = {
    "packed": _packed,
    "expanded": _expanded,
    "empty": _empty,
    "stream": _stream,
    "graph": _graph,
    "operators": _operators,
}
