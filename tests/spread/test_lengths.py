"""Which cases are given out first, and how many large ones at a time; none of it changes a run."""

import random

import pytest

from dmverify.conformance import gpus
from dmverify.conformance.spread import lengths
from dmverify.conformance.spread.in_order import InOrder
from dmverify.conformance.spread.lengths import Length, length_of, long_first, most_large
from tests.spread.workers import Lossy, one_process, plan


def given_out(the_plan, workers, **words):
    """The places of each block in turn, and what the run found."""
    blocks = []
    workers.submit = lambda block, submit=workers.submit: (blocks.append(block), submit(block))
    found = list(InOrder(the_plan, workers, None, **words).work())
    return [block.places for block in blocks], found


def test_the_longest_case_is_first_and_short_ones_keep_their_order():
    known = {place: Length(work) for place, work in enumerate([1, 1, 50, 1, 90, 1])}
    assert long_first(known, 2) == [4, 2, 0, 1, 3, 5]
    assert long_first(dict.fromkeys(range(200), Length()), 2) == list(range(200))


def test_a_longer_problem_is_longer_and_an_unknown_id_is_none():
    shape = "batch=1,heads=1,kv_heads=1,head_dim=64,causal=0"
    short, long = (
        length_of((f"gaussian/spread-1,queries={n},keys=512,{shape}@0", "article")).work
        for n in (2, 512)
    )
    assert long > 5 * short
    assert length_of(("counts/queries-2^17@0", "article")).large
    assert length_of(("no-such/case@0", "article")) == Length()


@pytest.mark.parametrize("most", [1, 2])
def test_so_many_large_cases_are_judged_at_a_time(most):
    the_plan = plan(60)
    known = {n: Length(100.0 if n % 7 == 0 else 1.0, large=n % 7 == 0) for n in range(60)}
    lossy = Lossy(random.Random(3), losses=4, count=6, most_large=most)
    peak = [0]

    def submit(block, submit=lossy.submit):
        submit(block)
        under_way = [p for one in lossy.waiting for p in one.places if known[p].large]
        peak.append(len(under_way))

    lossy.submit = submit
    found = list(InOrder(the_plan, lossy, None, lengths=known).work())
    assert max(peak) == most
    assert found == one_process(the_plan.asked)


def test_a_run_that_stops_early_asks_in_turn():
    the_plan = plan(40)
    known = {n: Length(float(n + 1), large=n % 9 == 8) for n in range(40)}
    blocks, found = given_out(the_plan, Lossy(random.Random(1)), lengths=known, in_turn=True)
    small = [p for block in blocks for p in block if not known[p].large]
    assert small == sorted(small)
    assert blocks.index((8,)) > 0  # not before what comes before it
    assert found == one_process(the_plan.asked)
    blocks, _ = given_out(the_plan, Lossy(random.Random(1)), lengths=known)
    assert blocks[0] == (35,)  # the largest of all


def test_blocks_hold_even_work_and_not_even_numbers():
    the_plan = plan(80)
    known = {n: Length(9.0 if n < 40 else 1.0) for n in range(80)}
    blocks, _ = given_out(the_plan, Lossy(random.Random(2), count=4), lengths=known)
    work = [sum(known[p].work for p in block) for block in blocks]
    total = sum(one.work for one in known.values())
    assert max(work) <= total / 16
    assert len(blocks[-1]) == 1


def test_large_cases_have_half_of_the_memory(monkeypatch):
    monkeypatch.setattr(lengths, "limit", lambda: 8e9)
    assert [most_large(jobs) for jobs in (1, 2, 16)] == [1, 2, 2]
    monkeypatch.setattr(lengths, "limit", lambda: 1e9)
    assert most_large(16) == 1


def test_a_gpu_is_seen_by_its_file_unless_it_is_hidden(monkeypatch, tmp_path):
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    (tmp_path / "nvidiactl").touch()  # of a driver without a card
    assert not gpus.shows_gpu()
    (tmp_path / "nvidia0").touch()
    assert gpus.shows_gpu()
    monkeypatch.setenv(gpus.VISIBLE, "")
    assert not gpus.shows_gpu()
