"""What is printed as a speed was done: every way to time other work is an error row.

The card is a fake. Its stream is a queue that runs when somebody looks; work on another stream runs
at once. Its clock says what a test tells it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from click.testing import CliRunner

from dmverify.cli.main import cli
from dmverify.errors import InputError
from dmverify.lab.bench import attention
from dmverify.lab.bench.attention import PEERS, Peer, bench, rows
from dmverify.lab.bench.measure import (
    BUSY_MS,
    MOST_REPEATS,
    PEAKS,
    REPEATS,
    NotMeasuredError,
    measure,
    median_ms,
    rate,
)
from dmverify.lab.bench.shapes import Shape

SHAPE = Shape(1, 2, 2, 1024, 64)


class FakeCard:
    """A card on which a graph is what a step queued while it was captured.

    Args:
        cold: What the clock says of a single run.
        busy: The same of a run among many; a function of its place.
        capturable: Whether a step can be captured.
    """

    def __init__(
        self,
        cold: float = 1.0,
        busy: Callable[[int], float] = lambda i: 1.5,
        capturable: bool = True,
    ) -> None:
        self.cold_ms, self.busy_ms, self.capturable = cold, busy, capturable
        self.recording: list[Callable[[], object]] | None = None
        self.occupied, self.repeats = 0, 0

    def submit(self, work: Callable[[], object]) -> None:
        """Work on the current stream."""
        if self.recording is None:
            work()
        else:
            self.recording.append(work)

    def warm_up(self, step):
        step()

    def capture(self, step):
        if not self.capturable:
            raise RuntimeError("not permitted when stream is capturing")
        self.recording = []
        try:
            outputs = step()
        finally:
            graph, self.recording = self.recording, None
        return lambda: [work() for work in graph], outputs

    def occupy(self):
        self.occupied += 1

    def cold(self, run, repeats):
        return [self.cold_ms for _ in range(repeats) if run() or True]

    def busy(self, run, repeats):
        self.repeats = repeats
        return [self.busy_ms(i) for i in range(repeats) if run() or True]


def outputs():
    return torch.zeros(4, 8, dtype=torch.bfloat16), torch.zeros(2, 3)


def filling(card, memory, part=1.0, number=1.0):
    """A step that fills a part of each tensor, on the card's stream."""

    def work():
        for x in memory:
            flat = x.view(-1)
            flat[: int(part * len(flat))] = number

    def step():
        card.submit(work)
        return memory

    return step


def timed(peer, card):
    """The row of a peer whose only pass is the forward."""
    (row,) = rows(peer, SHAPE, card)
    return row


def peer_of(*steps, operands="fp8"):
    names = ("fwd", "fwd+bwd")
    return Peer("own", operands, lambda shape: zip(names, steps, strict=False))


def test_a_step_that_does_its_work_has_both_medians():
    card = FakeCard(cold=0.5, busy=lambda i: 9.0 if i < 400 else 0.75)
    row = timed(peer_of(filling(card, outputs())), card)
    work = 4 * 2 * 1024**2 * 64 / 2
    assert row == {
        "kernel": "own",
        "shape": "1,2,2,1024,64",
        "pass": "fwd",
        "cold_ms": 0.5,
        "cold_tflops": round(work / 0.5 / 1e9, 1),
        "busy_ms": 0.75,
        "busy_tflops": round(work / 0.75 / 1e9, 1),
        "timed": "graph",
    }
    assert card.repeats == BUSY_MS / 0.5
    assert card.occupied == 1


@pytest.mark.parametrize(("cold", "repeats"), [(1e-3, MOST_REPEATS), (1e3, REPEATS)])
def test_back_to_back_has_enough_runs_and_not_too_many(cold, repeats):
    card = FakeCard(cold=cold, busy=lambda i: cold)
    measure(filling(card, outputs()), card)
    assert card.repeats == repeats


def test_the_median_is_that_of_the_times():
    assert median_ms([3.0, 1.0, 2.0, 50.0, 2.5]) == 2.5


FLOATS = (torch.bfloat16, torch.float32, torch.float8_e4m3fn)
WRITTEN = [(kind, x) for kind in FLOATS for x in (0.0, -2.0, 448.0, torch.inf)]
WRITTEN += [(torch.int32, x) for x in (0.0, -2.0, 448.0)]


@pytest.mark.parametrize(("kind", "number"), WRITTEN)
def test_whatever_a_step_writes_counts_as_written(kind, number):
    memory, card = (torch.zeros(16, dtype=kind),), FakeCard()

    def step():
        card.submit(lambda: memory[0].copy_(torch.full((16,), number)))
        return memory

    assert measure(step, card).how == "graph"


def test_outputs_that_are_not_contiguous_or_have_a_gradient_are_watched():
    card = FakeCard()
    x = torch.zeros(6, 4, requires_grad=True).t() * 1
    row = torch.zeros(3, 8)[:, ::2]
    steps = [lambda y=y: card.submit(lambda: y.detach().fill_(2.0)) or (y,) for y in (x, row)]
    assert all(measure(step, card).how == "graph" for step in steps)


def empty_graph(card, memory):
    """A step whose work goes to a handle's own stream, at once, whatever is being captured."""

    def step():
        for x in memory:
            x.fill_(1.0)
        return memory

    return step


def half(card, memory):
    return filling(card, memory, part=0.5)


def second_missing(card, memory):
    fill = filling(card, memory[:1])
    return lambda: fill() + memory[1:]


def nothing(card, memory):
    return lambda: memory


WRONG = {
    "empty graph": (empty_graph, "32 of 32 numbers of output 0 not written"),
    "half": (half, "16 of 32 numbers of output 0 not written"),
    "second output": (second_missing, "6 of 6 numbers of output 1 not written"),
    "nothing": (nothing, "32 of 32 numbers of output 0 not written"),
    "no outputs": (lambda card, memory: tuple, "no outputs"),
}


@pytest.mark.parametrize(("make", "reason"), WRONG.values(), ids=WRONG)
def test_a_captured_step_that_does_not_fill_its_outputs_is_an_error(make, reason):
    card = FakeCard()
    row = timed(peer_of(make(card, outputs())), card)
    assert set(row) == {"kernel", "shape", "pass", "error"}
    assert reason in row["error"]


class BusyStream(FakeCard):
    """A card whose current stream runs at once while idle, and in order, later, once occupied."""

    def __init__(self):
        super().__init__(capturable=False)
        self.queue: list[Callable[[], object]] | None = None

    def occupy(self):
        self.queue = []

    def submit(self, work):
        if self.queue is None:
            work()
        else:
            self.queue.append(work)

    def drain(self):
        for work in self.queue or ():
            work()
        self.queue = None


@pytest.mark.parametrize(("own_stream", "good"), [(True, False), (False, True)])
def test_launched_work_that_does_not_wait_for_the_stream_is_an_error(monkeypatch, own_stream, good):
    memory, card, fill = outputs(), BusyStream(), torch.Tensor.fill_
    monkeypatch.setattr(torch.Tensor, "fill_", lambda x, y: card.submit(lambda: fill(x, y)))

    def work():
        for x in memory:
            fill(x, 1.0)

    def step():
        if own_stream:
            work()
        else:
            card.submit(work)
        card.drain()  # somebody looks
        return memory

    row = timed(peer_of(step), card)
    assert ("not written" in row.get("error", "")) == (not good)


def test_a_step_that_cannot_be_captured_is_launched_if_its_memory_stays():
    card = FakeCard(capturable=False)
    assert timed(peer_of(filling(card, outputs())), card)["timed"] == "launched"
    row = timed(peer_of(nothing(card, outputs())), card)
    assert "not written" in row["error"]


def test_a_step_that_cannot_be_captured_and_moves_its_outputs_is_an_error():
    card, kept = FakeCard(capturable=False), []

    def step():
        kept.append(torch.ones(4))
        return (kept[-1],)

    row = timed(peer_of(step), card)
    assert "outputs elsewhere in each run" in row["error"]
    assert "not permitted when stream is capturing" in row["error"]


FASTEST = {name: SHAPE.work / peak / 1e9 for name, peak in PEAKS.items()}  # ms


@pytest.mark.parametrize("operands", PEAKS)
@pytest.mark.parametrize(
    ("cold", "busy", "good"), [(2, 2, True), (0.99, 2, False), (2, 0.99, False)]
)
def test_a_time_that_beats_the_peak_is_an_error(operands, cold, busy, good):
    least = FASTEST[operands]
    card = FakeCard(cold=cold * least, busy=lambda i: busy * least)
    row = timed(peer_of(filling(card, outputs()), operands=operands), card)
    assert ("error" not in row) == good
    if not good:
        assert "cold_ms" not in row
        assert f"at most {PEAKS[operands]:.0f} TFLOP/s" in row["error"]


def test_the_peaks_are_those_of_the_datasheet_and_what_was_once_printed_is_above():
    assert dict(PEAKS) == {"fp8": 1979.0, "bf16": 989.0}
    long = Shape(1, 16, 16, 8192, 128)
    with pytest.raises(NotMeasuredError, match=r"TFLOP/s in 0\.0013 ms"):
        rate(2.5 * long.work, 0.0013, "fp8")
    assert round(rate(long.work, 0.324, "fp8")) == 848


@pytest.mark.parametrize("ms", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("which", ["cold", "busy"])
def test_a_clock_that_gives_no_positive_time_is_an_error(ms, which):
    card = FakeCard(cold=ms) if which == "cold" else FakeCard(busy=lambda i: ms)
    row = timed(peer_of(filling(card, outputs())), card)
    assert "positive time" in row["error"]
    with pytest.raises(NotMeasuredError):
        median_ms([])


def test_one_wrong_pass_leaves_the_other():
    card = FakeCard()
    first, second = rows(peer_of(nothing(card, outputs()), filling(card, outputs())), SHAPE, card)
    assert ("error" in first, first["pass"]) == (True, "fwd")
    assert (second["cold_ms"], second["pass"]) == (1.0, "fwd+bwd")


def test_a_refusal_is_a_skip_and_no_error():
    def refuse():
        raise RuntimeError("no kernel for this shape")

    (row,) = rows(peer_of(refuse), SHAPE, FakeCard())
    assert row["skip"] == "RuntimeError: no kernel for this shape"
    assert "error" not in row


def test_every_peer_says_what_it_multiplies():
    assert {name: peer.operands for name, peer in PEERS.items()} == {
        "bundled": "fp8",
        "cudnn-bf16": "bf16",
        "flash-2": "bf16",
        "flash-3": "bf16",
        "flash-3-fp8": "fp8",
        "cudnn-fp8": "fp8",
    }
    assert attention.find_peer("bundled:delta=stale").operands == "fp8"


def test_another_card_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "another")
    with pytest.raises(InputError, match=r"another.*peak of a Hopper"):
        list(bench((SHAPE,)))


GOOD = {"kernel": "bundled", "shape": "s", "pass": "fwd", "cold_ms": 0.5, "cold_tflops": 480.0,
        "busy_ms": 0.6, "busy_tflops": 400.0, "timed": "graph"}  # fmt: skip
SKIPPED = {"kernel": "flash-3", "shape": "s", "skip": "ImportError: none"}
BAD = {"kernel": "cudnn-fp8", "shape": "s", "pass": "fwd", "error": "32 of 32 not written"}


@pytest.mark.parametrize(("found", "code"), [([GOOD, SKIPPED], 0), ([GOOD, BAD], 3), ([], 0)])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_prints_both_times_and_fails_on_an_error(monkeypatch, found, code, as_json):
    monkeypatch.setattr("dmverify.cli.bench.bench", lambda shapes, *, kernels: found)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "card")
    result = CliRunner().invoke(cli, ["bench", *(["--json"] if as_json else [])])
    assert result.exit_code == code
    if as_json:
        assert json.loads(result.stdout)["rows"] == found
    elif found:
        assert "0.5 ms cold  480.0 TFLOP/s  0.6 ms back to back  400.0 TFLOP/s" in result.stdout
        assert ("ERROR: 32 of 32 not written" in result.stdout) == (code == 3)
        assert ("skipped: ImportError: none" in result.stdout) == (code == 0)
