"""Independent tensor core models that others wrote, called with our arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray

from dmverify.errors import DependencyError


def mmasim_wgmma(
    a: NDArray[np.uint8], b: NDArray[np.uint8], *, c: NDArray[np.float32]
) -> Callable[[], NDArray[np.float32]]:
    """MMA-Sim's Hopper wgmma on E4M3 codes, ready to run.

    Args:
        a: Codes, (64, 32).
        b: Codes, (n, 32).
        c: Accumulator, (64, n).

    Raises:
        DependencyError: mmasim is not installed.
    """
    if find_spec("mmasim") is None:
        raise DependencyError(
            "no mmasim",
            rule="the comparison runs MMA-Sim",
            fix="pip install 'dmverify[oracle]', or leave the peer out",
        )
    from mmasim.nv_ptx import WGMMA

    core = WGMMA("Hopper", f"m64n{len(b)}k32.f32.e4m3.e4m3")
    left, right = (torch.from_numpy(x.copy()).view(torch.float8_e4m3fn) for x in (a, b))
    start = torch.from_numpy(c.copy())

    def run() -> NDArray[np.float32]:
        result: NDArray[np.float32] = core(left, right.T, start).numpy()
        return result

    return run
