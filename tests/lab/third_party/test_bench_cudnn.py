"""The steps that are timed run cuDNN's graphs, on memory that is made once."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from dmverify.lab.bench import cudnn_fp8 as bench
from dmverify.lab.bench.shapes import Shape
from dmverify.lab.third_party.kernels import cudnn_graph
from tests.lab.third_party import fakes

SHAPE = Shape(2, 4, 2, 24, 16)
Call = tuple[str, dict[str, Tensor], list[Tensor], Any]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What each execution was given: node, inputs by name, outputs in order, handle."""
    made: list[Call] = []
    execute = fakes.PyGraph.execute

    def keep(self: fakes.PyGraph, pack: dict[Any, Tensor], work: Tensor, *, handle: Any) -> None:
        execute(self, pack, work, handle=handle)
        assert self.node is not None
        name, inputs, outs = self.node
        given = {n: pack[x] for n, x in inputs.items() if isinstance(x, fakes.Node)}
        made.append((name, given, [pack[x] for x in outs], handle))

    monkeypatch.setattr(fakes.PyGraph, "execute", keep)
    monkeypatch.setitem(sys.modules, "cudnn", fakes.CUDNN)
    return made


def pointers(call: Call) -> list[int]:
    return [x.data_ptr() for x in (*call[1].values(), *call[2])]


def test_each_step_is_one_execution_on_the_same_memory(calls: list[Call]) -> None:
    for name, step in bench.steps(SHAPE):
        step()
        step()
        assert [call[0] for call in calls] == [{"fwd": "forward", "bwd": "backward"}[name]] * 2
        assert pointers(calls[0]) == pointers(calls[1])
        assert calls[0][3] == "handle"
        calls.clear()


def test_every_execution_is_on_the_stream_that_is_current_then(
    calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[object, object]] = []
    current = iter(range(10, 20))
    monkeypatch.setattr(cudnn_graph, "current_stream", lambda: next(current))
    monkeypatch.setattr(
        fakes.CUDNN, "set_stream", lambda handle, stream: order.append((handle, stream))
    )
    for _, step in bench.steps(SHAPE):
        step()
        step()
    assert order == [("handle", stream) for stream in (10, 11, 12, 13)]
    assert len(calls) == 4


def test_a_step_returns_what_it_fills(calls: list[Call]) -> None:
    for _, step in bench.steps(SHAPE):
        outputs = step()
        filled = [x.data_ptr() for x in calls[-1][2]]
        assert [x.data_ptr() for x in outputs] == filled[: len(outputs)]
        assert len(outputs) == {"forward": 2, "backward": 3}[calls[-1][0]]


def test_the_backward_reads_what_the_forward_wrote(calls: list[Call]) -> None:
    names = []
    for name, step in bench.steps(SHAPE):
        step()
        names.append(name)
    (_, _, (o, stats, *_), _), (_, given, gradients, _) = calls
    assert names == ["fwd", "bwd"]
    assert given["o"] is o
    assert given["stats"] is stats
    for x, heads in zip(gradients[:3], (4, 2, 2), strict=True):
        assert x.shape == (2, 24, heads, 16)
        assert not x.float().isnan().any()  # it was filled with NaN, so all of it was written


@pytest.mark.parametrize("causal", [True, False])
def test_the_output_is_attention_of_the_codes(causal: bool, calls: list[Call]) -> None:
    shape = Shape(2, 4, 2, 24, 16, causal)
    _, step = next(bench.steps(shape))
    step()
    ((_, given, (o, *_), _),) = calls
    q, k, v = (given[n].double().transpose(1, 2) for n in ("q", "k", "v"))
    _, want, _ = fakes.attention(q, k, v, scale=0.25, causal=causal, corner="bottom right")
    got = o.double().transpose(1, 2)
    assert (got - want).abs().max() < 0.15 * want.abs().max()  # E4M3: P and the store
    other = fakes.attention(q, k, v, scale=0.25, causal=not causal, corner="bottom right")[1]
    assert (got - other).abs().max() > 0.15 * want.abs().max()


def test_a_backward_that_cudnn_lacks_leaves_the_forward(
    calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(fakes.PyGraph, "sdpa_fp8_backward", refuse)
    found = bench.steps(SHAPE)
    assert next(found)[0] == "fwd"
    with pytest.raises(RuntimeError, match="no kernel"):
        next(found)


def test_only_the_scales_of_p_are_not_one(calls: list[Call]) -> None:
    for _, step in bench.steps(SHAPE):
        step()
    scales = {n: x for _, given, _, _ in calls for n, x in given.items() if "scale_" in n}
    assert {n: x.item() for n, x in scales.items() if x.item() != 1} == {
        "scale_s": 256.0,
        "descale_s": 2.0**-8,
    }
    assert all(x.dtype is torch.float32 for x in scales.values())
