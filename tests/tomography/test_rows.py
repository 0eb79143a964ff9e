"""Recovered row sums against the kernel's own dS: every row within its bar, and bars can fail."""

import numpy as np
import pytest

from dmverify.conformance.families.tomography.designs import dealt, design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.tomography.stored import Stored
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.spec.formats import E5M2
from tests.tomography.kernels import Narrow, Noisy, Uncentred

SMALL = {
    "batch": 2,
    "heads": 2,
    "kv_heads": 2,
    "length": 128,
    "head_dim": 32,
    "runs": 4,
    "repeats": 1,
}


def true_rows(kernel, tomogram, offset):
    """Row sums of the dS that a kernel dumps, by the same weights; (B, H, N)."""
    total = count = 0
    for call in design(tomogram.setup, tomogram.contract, offset=offset):
        rows = kernel.internals(call.case).ds_cast.sum(-1)
        total, count = total + call.weights * rows, count + call.weights**2
    return total / np.where(count > 0, count, 1)


def margins(kernel, tomogram):
    """abs(recovered - true) / bar of every row of every scan."""
    found = []
    for scan in tomogram.scans:
        truth = true_rows(kernel, tomogram, scan.offset)[tuple(scan.at.T)]
        error = np.abs(scan.value - truth)
        assert (error[scan.bar == 0] == 0).all()
        found.append(error / np.where(scan.bar > 0, scan.bar, 1))
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("kernel", "contract", "sizes"),
    [
        (Simulation(), "article:delta=stale", {}),
        (Simulation(), "article", {"form": "signs"}),
        (Simulation(), "article:delta=stale", {"form": "signs", "length": 100}),
        (Simulation(), "upstream", {"heads": 6, "causal": False, "runs": 8}),
        (Simulation(), "article", {"head_dim": 96, "length": 150, "spread": 8.0}),
        (Simulation(), "article:delta=consistent", {"length": 40, "spread": 0.1}),
        (Emulator(), "bundled:delta=stale", {}),
        (Emulator(), "bundled:ds_cast=zero-sum", {"heads": 4, "length": 100, "batch": 1}),
        (Emulator(), "bundled", {"form": "signs", "batch": 1}),
        (Narrow(), "article", {}),
        (Narrow(unit=1.4), "article:delta=stale", {}),
        (Narrow(E5M2, unit=1.2), "article", {"heads": 4, "runs": 8}),
    ],
)
def test_every_row_is_within_its_bar(kernel, contract, sizes):
    tomogram = tomograph(kernel, contract, setup=Setup(**SMALL | sizes))
    found = margins(kernel, tomogram)
    assert found.size >= 32
    assert found.max() <= 1


def test_the_probe_reads_all_rows():
    tomogram = tomograph(Uncentred(), setup=Setup(**SMALL, form="probe"))
    assert [len(scan.value) for scan in tomogram.scans] == [2 * 2 * 128] * 2
    found = margins(Uncentred(), tomogram)
    assert found.max() <= 1
    relative = np.concatenate([scan.bar / np.maximum(scan.size, 1e-30) for scan in tomogram.scans])
    assert np.median(relative) < 1e-3  # far below that of dK


def test_a_bar_that_is_too_small_fails(monkeypatch):
    honest = Stored.half_units
    monkeypatch.setattr(Stored, "half_units", lambda self, x: honest(self, x) / 8)
    tomogram = tomograph(Simulation(), setup=Setup(**SMALL))
    assert margins(Simulation(), tomogram).max() > 1


def test_row_sums_of_another_kernel_fail():
    tomogram = tomograph(Simulation(), "article:delta=stale", setup=Setup(**SMALL))
    stale_for_matched = {"contract": "article"}
    other = type("Other", (), {**vars(tomogram), **stale_for_matched})
    assert margins(Simulation(), other).max() > 1


@pytest.mark.parametrize("unit", [1.0, 1.4])
def test_the_stored_format_is_seen(unit):
    tomogram = tomograph(Narrow(unit=unit), setup=Setup(**SMALL | {"batch": 4}))
    assert all("E4M3" in scan.stored for scan in tomogram.scans)
    assert all(("times" in scan.stored) == (unit != 1.0) for scan in tomogram.scans)


def test_noise_is_seen_and_widens_the_bar():
    setup = Setup(**SMALL | {"repeats": 3})
    noisy, calm = (tomograph(kernel, setup=setup) for kernel in (Noisy(0.3), Simulation()))
    for loud, quiet in zip(noisy.scans, calm.scans, strict=True):
        assert (quiet.noise == 0).all()
        assert (loud.noise > 0).mean() > 0.9
        assert (loud.bar >= loud.noise).all()


@pytest.mark.parametrize("sizes", [{}, {"heads": 8}, {"length": 100}, {"form": "signs"}])
def test_rows_of_a_call_are_orthogonal_and_all_rows_come_up(sizes):
    setup = Setup(**SMALL | {"runs": 1000} | sizes)
    calls = design(setup, "article", offset=4.0)
    seen = sum(call.weights**2 for call in calls)
    assert (seen == seen.max()).all()
    group, row, count = dealt(setup)
    for number in range(count):
        for first in range(0, setup.heads, setup.problem.group):
            mine = slice(first, first + setup.problem.group)
            live = group[mine] == number
            q = calls[0].case.inputs.q[0].swapaxes(0, 1)[mine][live].astype(np.float64)
            gram = q @ q.T
            assert (gram == np.diag(np.diag(gram))).all()
            assert len(set(row[mine][live])) == live.sum()
