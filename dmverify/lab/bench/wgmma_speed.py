"""Speed of the bit-exact tensor core on this CPU, beside MMA-Sim (package mmasim).

``dmverify lab wgmma-speed`` writes the rows as JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dmverify.errors import InputError
from dmverify.lab.probes.operands import operands
from dmverify.lab.probes.peers import mmasim_wgmma
from dmverify.spec.formats import E4M3
from dmverify.spec.machine import hopper

Row = dict[str, str | float]
SHAPES = ((512, 512, 512), (512, 512, 64), (512, 64, 512), (128, 128, 128))
"""(M, N, K); K is chained."""
_MMASIM_SHAPE = (64, 256, 32)


def wgmma_speed(
    shapes: tuple[tuple[int, int, int], ...] = SHAPES, repeats: int = 5, *, peer: bool = True
) -> list[Row]:
    """Times `wgmma_values`, and MMA-Sim's Hopper wgmma in the same run.

    Args:
        shapes: (M, N, K) of the products.
        repeats: Runs of each; the fastest counts, since others may use the machine.
        peer: Whether to run MMA-Sim beside.

    Returns:
        One row per product: kernel, shape, macs_per_second and, with a peer, times_peer.

    Raises:
        InputError: `repeats` is not positive.
        DependencyError: `peer` and mmasim is not installed.
    """
    if repeats < 1:
        raise InputError(
            repeats, rule="the number of repeats is positive", fix="pass repeats=1 or more"
        )
    rows: list[Row] = [_mmasim_row(repeats)] if peer else []
    for shape in shapes:
        rate = _rate(_ours(shape), shape, repeats)
        row: Row = {"kernel": "dmverify", "shape": _text(shape), "macs_per_second": rate}
        if peer:
            row["times_peer"] = rate / float(rows[0]["macs_per_second"])
        rows.append(row)
    return rows


def _codes(shape: tuple[int, int, int]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Bell-shaped E4M3 codes, as attention has them."""
    m, n, k = shape
    rows = -(-m // 64)
    made = operands("attention", "e4m3", b_type="e4m3", shape=(rows, n, k))
    return made.a.reshape(-1, k)[:m], made.b[0]


def _ours(shape: tuple[int, int, int]) -> Callable[[], object]:
    a, b = (E4M3.decode(x) for x in _codes(shape))
    c = np.zeros(shape[:2], np.float32)
    return lambda: hopper.wgmma_values(a, b, c)


def _mmasim_row(repeats: int) -> Row:
    m, n, _ = _MMASIM_SHAPE
    run = mmasim_wgmma(*_codes(_MMASIM_SHAPE), c=np.zeros((m, n), np.float32))
    rate = _rate(run, _MMASIM_SHAPE, repeats)
    return {"kernel": "mmasim", "shape": _text(_MMASIM_SHAPE), "macs_per_second": rate}


def _rate(run: Callable[[], object], shape: tuple[int, int, int], repeats: int) -> float:
    run()
    best = min(_seconds(run) for _ in range(repeats))
    return float(np.prod(shape, dtype=np.int64)) / best


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _text(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))
