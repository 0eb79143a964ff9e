"""Which outputs must be NaN when an input is.

A NaN (or an infinity, whose scale is infinite and whose codes are NaN) makes its whole block NaN;
in K, where keys are centred, every key of the head through the mean.

    with windows    ``special_windows``: it is stated which tiles are read, so nothing is open
    in E4M3         a NaN number that a query sees makes its row NaN, and a NaN anywhere in a dS or
                    P tile makes the tile NaN through its amax. What a hidden NaN does is left
                    open: a dense kernel multiplies it by 0, a sparse one never reads it.
    other formats   the same, number by number as the operand's cast leaves them: a scale that is
                    stated or given spreads no NaN, so that a channel of V reaches that of O alone.

Source: the scale rules of ``dmverify.spec.scaling``. Not covered: NaN made by overflow, which the
enclosure leaves open; contracts whose scale rule refuses such inputs; INT8, where NaN has no code;
FP8 taken online with scales from the data, whose kernels differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.attention.operands import prepare
from dmverify.spec.case import F32, OPERANDS, Inputs
from dmverify.spec.contracts import Contract, Rows, Windows
from dmverify.spec.enclosure.special_windows import blocks, operands_nan, windowed_nan
from dmverify.spec.formats import INT8
from dmverify.spec.problem import Problem

Flags = npt.NDArray[np.bool_]

PER_TOKEN = ("dk", "dv")


def must_nan(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Flags]:
    """The elements that are NaN in every conforming kernel, in the shapes of ``Outputs``."""
    shapes = problem.shapes()
    names = ("o", "lse", "dq", "dk", "dv", "delta")
    schedule, in_e4m3 = contract.schedule, contract.in_e4m3
    windowed = isinstance(schedule, Windows)
    spreads = isinstance(schedule, Rows) and in_e4m3 and contract.operand_rule == "amax"
    known = spreads or windowed or not in_e4m3
    if not known or all(np.isfinite(array).all() for _, array in inputs.items()):
        return {name: np.broadcast_to(np.False_, shapes[name]) for name in names}
    if not in_e4m3:
        return _by_numbers(contract, problem, inputs)
    flags = {name: np.zeros(shapes[name], dtype=bool) for name in names}
    for batch, head in np.ndindex(problem.batch, problem.heads):
        kv_head = head // problem.group
        q, do = inputs.q[batch, :, head], inputs.do[batch, :, head]
        k, v = inputs.k[batch, :, kv_head], inputs.v[batch, :, kv_head]
        of_head = windowed_nan if windowed else _dense
        for name, certain in of_head(contract, problem, (q, k, v, do)).items():
            if name in ("lse", "delta"):
                flags[name][batch, head] |= certain
            else:
                at = kv_head if name in PER_TOKEN else head
                flags[name][batch, :, at] |= certain[:, None]
    return flags


def _dense(
    contract: Contract, problem: Problem, heads: tuple[F32, F32, F32, F32]
) -> dict[str, Any]:
    """Rows of one query head's outputs, (N,) each, from its q, k, v and dO, (N, D) each."""
    seen: Any = problem.mask()  # numpy types flags | flags as scalar or array
    schedule = contract.schedule
    assert isinstance(schedule, Rows)
    side = schedule.tile
    live = seen.any(1)
    q_nan, k_nan, v_nan, do_nan = operands_nan(contract, heads)
    softmax = live & (q_nan | (seen & k_nan).any(1))
    o = softmax | (seen & v_nan).any(1)
    read_nan = np.isnan(heads[-1]).any(1) if contract.delta_mode.reads_input else do_nan
    delta = live & (o | read_nan)
    ds = seen & ((delta | do_nan)[:, None] | v_nan | k_nan)
    ds = seen & blocks(ds, side, side)
    p = seen & blocks(seen & softmax[:, None], side, side)
    return {
        "o": o,
        "lse": softmax,
        "delta": delta,
        "dq": ds.any(1),
        "dk": ds.any(0),
        "dv": p.any(0) | (seen & do_nan[:, None]).any(0),
    }


def _by_numbers(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Flags]:
    """Where NaN is due, computed from the cast operands, head by head."""
    numbers: dict[str, Any] = dict(nan_numbers(contract, problem, inputs))
    seen: Any = problem.mask()
    group = problem.group
    names = ("o", "lse", "dq", "dk", "dv", "delta")
    flags = {
        name: np.zeros(shape, bool) for name, shape in problem.shapes().items() if name in names
    }
    for batch, head in np.ndindex(problem.batch, problem.heads):
        kv_head = head // group
        q, k, v, do = (numbers[n][batch, head if n in ("q", "do") else kv_head] for n in OPERANDS)
        read = np.isnan(inputs.do[batch, :, head]) if contract.delta_mode.reads_input else do
        softmax = (seen & (q.any(1)[:, None] | k.any(1))).any(1)
        o = softmax[:, None] | met(seen, v)
        delta = seen.any(1) & (o | read).any(1)
        ds = seen & ((delta | do.any(1))[:, None] | v.any(1))
        flags["o"][batch, :, head], flags["lse"][batch, head] = o, softmax
        flags["delta"][batch, head], flags["dq"][batch, :, head] = delta, ds.any(1)[:, None]
        flags["dk"][batch, :, kv_head] |= ds.any(0)[:, None]
        flags["dv"][batch, :, kv_head] |= met(seen.T, softmax[:, None] | do)
    return flags


def nan_numbers(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Flags]:
    """Which operands are NaN as a kernel has them, (B, H, N, D); none of INT8, which has no NaN."""
    with np.errstate(all="ignore"):
        prepared = prepare(contract, problem, inputs, cast=True).tensors
        found = {name: np.isnan(codes * scale) for name, (codes, scale) in prepared.items()}
    lengths = {name: getattr(inputs, name).shape[1] for name in found}
    has_nan = {name: contract.element(name) is not INT8 for name in found}
    return {name: x[:, :, : lengths[name]] & has_nan[name] for name, x in found.items()}


def met(seen: Flags, x: Flags) -> Flags:
    """Whether what (M, N) sees has a flag of (N, D): (M, D)."""
    return np.asarray(seen.astype(np.float32) @ x.astype(np.float32) > 0)
