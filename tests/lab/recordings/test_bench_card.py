"""The order of what a measurement asks of the GPU, on a torch that only keeps a log."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from dmverify.lab.bench import card as module


class Torch:
    """torch.cuda as a log of calls; the time of an event is its place in the log."""

    uint8 = "uint8"

    def __init__(self):
        self.log: list[str] = []
        self.cuda = SimpleNamespace(
            Stream=lambda: self.stream("side"),
            current_stream=lambda: self.stream("current"),
            stream=self.on,
            synchronize=lambda: self.log.append("synchronize"),
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: self.log.append("replay")),
            graph=lambda graph: self.on("graph"),
            Event=self.event,
        )

    def empty(self, size, *, dtype, device):
        return SimpleNamespace(zero_=lambda: self.log.append("fill"))

    def stream(self, name):
        return SimpleNamespace(wait_stream=lambda other: self.log.append(f"{name} waits"))

    @contextmanager
    def on(self, what):
        self.log.append(f"begin {what if isinstance(what, str) else 'side'}")
        yield
        self.log.append("end")

    def event(self, *, enable_timing):
        assert enable_timing
        made = SimpleNamespace(at=0)

        def record():
            made.at = len(self.log)
            self.log.append("event")

        made.record, made.synchronize = record, lambda: self.log.append("wait")
        made.elapsed_time = lambda other: float(other.at - made.at)
        return made


@pytest.fixture
def torch(monkeypatch):
    fake = Torch()
    monkeypatch.setattr(module, "torch", fake)
    return fake


def run_of(torch):
    return lambda: torch.log.append("run")


def test_cold_runs_start_on_an_idle_card_with_other_bytes_in_its_cache(torch):
    assert module.Cuda().cold(run_of(torch), 3) == [2.0] * 3
    assert torch.log == ["fill", "event", "run", "event", "wait"] * 3


def test_runs_back_to_back_have_no_pause(torch):
    assert module.Cuda().busy(run_of(torch), 4) == [2.0] * 4
    assert torch.log == ["event", *["run", "event"] * 4, "wait"]


def test_a_captured_step_ran_once_and_replays(torch):
    def step():
        torch.log.append("step")
        return ("out",)

    run, outputs = module.Cuda().capture(step)
    assert outputs == ("out",)
    assert torch.log == ["begin graph", "step", "end", "synchronize"]
    run()
    assert torch.log[-1] == "replay"


def test_a_failed_capture_leaves_nothing_running(torch):
    def step():
        raise RuntimeError("no capture")

    with pytest.raises(RuntimeError, match="no capture"):
        module.Cuda().capture(step)
    assert torch.log[-1] == "synchronize"


def test_warming_up_and_occupying(torch):
    module.Cuda().warm_up(run_of(torch))
    runs = ["run"] * module.WARM_UPS
    waits = ["side waits", "begin side", *runs, "end", "current waits", "synchronize"]
    assert torch.log == waits
    torch.log.clear()
    module.Cuda().occupy()
    assert torch.log == ["fill"] * module.FILLS
