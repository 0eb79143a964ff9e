"""Runs in parts, tried at length: what the programs of the laboratory ask and say."""

import sys

import pytest

from dmverify.conformance.families import FAMILIES, generate
from dmverify.errors import HarnessError
from dmverify.lab.spread import load as simulated
from dmverify.lab.spread import timing
from dmverify.lab.spread.cases import ORDINARY, TINY, cheap_cases


def test_cheap_cases_are_of_all_families_each_once_and_can_be_made():
    for shape in (TINY, ORDINARY):
        ids = cheap_cases(700, shape)
        assert len(set(ids)) == 700
        families = {one.partition("/")[0] for one in ids}
        assert len(families) > 0.8 * len(FAMILIES)
        for one in ids[::50]:
            assert generate(one).id == one


def test_a_driver_that_costs_nothing_keeps_its_workers_busy_and_a_slow_one_does_not():
    free = simulated.Costs(block=1e-6, order=1e-6, keep=1e-6, size=1)
    row = simulated.simulate(free, 16, 1.0)
    assert row.busy > 0.9
    assert row.cases == pytest.approx(16 * row.busy, rel=0.1)
    slow = simulated.simulate(simulated.Costs(block=1.0, order=1.0, keep=1.0, size=1), 16, 1.0)
    assert slow.busy < 0.1


def test_a_pytest_that_does_not_come_to_judge_is_an_error(tmp_path):
    """Its exit code decides; times of nothing would look like the fastest way of all."""
    with pytest.raises(HarnessError, match="pytest ended with exit code"):
        timing._pytest("no_such_package:Kernel", (("lengths/n17@0", "article"),), 1, tmp_path)


def test_a_relative_path_of_modules_holds_where_pytest_runs(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kernel_of_mine.py").write_text(
        "from dmverify.conformance.kernels.simulation import Simulation as Kernel\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["mine", *sys.path])
    asked = (("lengths/n1@0", "article"),)
    _, same = timing._pytest("kernel_of_mine:Kernel", asked, 1, tmp_path)
    assert not same(())  # it has margins, which nobody found
    assert timing._margins(tmp_path / "junit.xml")


def test_in_rounds_the_ways_take_turns_and_sums_are_compared():
    met = []

    def way(name, wall, found):
        def run(part):
            met.append(name)
            return timing.Clocked(1.0, wall * len(part), 4.0 * len(part)), lambda due: due == found

        return run

    ways = {
        "loop": way("loop", 4.0, "x"),
        "fast": way("fast", 2.0, "x"),
        "odd": way("odd", 3.0, "y"),
    }
    parts = (("a", "b"), ("c",))
    rounds = [timing._round(ways, part, first=i) for i, part in enumerate(parts)]
    assert met == ["loop", "fast", "odd", "fast", "odd", "loop"]
    fast, odd = (timing._timed(name, rounds, ["x", "x"], 2) for name in ("fast", "odd"))
    assert (fast.wall, fast.cpu, fast.ratio, fast.ratios) == (6.0, 12.0, 1.0, (1.0, 1.0))
    assert (odd.ratio, fast.same, odd.same) == (1.5, True, False)
