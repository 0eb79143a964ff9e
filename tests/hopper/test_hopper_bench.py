"""The speed comparison returns rows; nothing here looks at the times."""

import pytest

from dmverify.errors import DependencyError, InputError
from dmverify.lab.bench import wgmma_speed as bench
from dmverify.lab.probes import peers


def test_rows_name_both_sides():
    pytest.importorskip("mmasim", reason="extra 'oracle' is not installed")
    rows = bench.wgmma_speed(((64, 32, 32),), 1)
    assert [row["kernel"] for row in rows] == ["mmasim", "dmverify"]
    assert float(rows[1]["macs_per_second"]) > 0
    assert set(rows[1]) == {"kernel", "shape", "macs_per_second", "times_peer"}


def test_without_the_peer():
    assert set(bench.wgmma_speed(((64, 32, 32),), 1, peer=False)[0]) == {
        "kernel",
        "shape",
        "macs_per_second",
    }


def test_missing_peer_and_wrong_repeats_are_typed_errors(monkeypatch):
    with pytest.raises(InputError, match="positive"):
        bench.wgmma_speed(repeats=0)
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    with pytest.raises(DependencyError, match="MMA-Sim"):
        bench.wgmma_speed()
