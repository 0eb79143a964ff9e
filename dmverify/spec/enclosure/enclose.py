"""``enclosure``: for every output element, the numbers that a conforming kernel may return.

It follows the contract's steps in interval arithmetic, with the casts as sets of codes: by
induction, each interval holds every float32 number that any order of summation can present, so a
kernel outside is wrong about something and a conforming kernel is never outside. It encloses
against attention on the contract's own quantised operands, not against unquantised attention.

| covered | not covered (ContractError) |
|---|---|
| contracts on dequantised operands with amax scales: article, upstream | codes: bits are known |
| delta stale, consistent, matched | renormalized, shifted, associated |
| casts to nearest that do not saturate | the zero-sum cast |
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.case import F32, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.backward import DELTAS, BackwardBounds, backward
from dmverify.spec.enclosure.bands import Band, bf16_band, single_band, store_bf16
from dmverify.spec.enclosure.forward import HeadOperands, forward
from dmverify.spec.enclosure.interval import Interval, closed
from dmverify.spec.enclosure.operands import cast_centred, cast_operand
from dmverify.spec.enclosure.special import Flags, block_nan, certain_nan
from dmverify.spec.problem import Problem

# The values of the contract's fields that the intervals know.
COVERED = MappingProxyType(
    {
        "operand_rule": ("amax",),
        "operand_form": ("dequantised",),
        "centre_k": ("mean",),
        "softmax": ("row-max",),
        "p_encoding": ("group-amax",),
        "normaliser": ("unrounded",),
        "quotient": ("divide",),
        "ds_scale": ("tile-amax",),
        "ds_cast": ("nearest",),
        "saturate": (False,),
        "delta": tuple(DELTAS),
    }
)

_STORES = {"o": bf16_band, "dq": bf16_band, "dk": bf16_band, "dv": bf16_band}


def enclosure(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Band]:
    """The band of every output (o, lse, dq, dk, dv, delta), in the shapes of ``Outputs``.

    Args:
        contract: One that ``COVERED`` admits.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D); NaN and infinity allowed.

    Raises:
        ContractError: If the contract has a decision that is not covered.
    """
    require_covered(contract)
    with np.errstate(all="ignore"):
        heads = [
            part
            for batch in range(problem.batch)
            for kv_head in range(problem.kv_heads)
            for part in _group(contract, problem, inputs, batch, kv_head)
        ]
    return {name: _gather(problem, name, heads) for name in ("o", "lse", "dq", "dk", "dv", "delta")}


def require_covered(contract: Contract) -> None:
    """Raises ContractError if the contract has a decision that is not covered."""
    for name, words in COVERED.items():
        value = getattr(contract, name)
        if value not in words:
            raise ContractError(
                f"{contract.name} with {name}={value!r}",
                rule=f"enclosures are derived for {name} in {', '.join(map(str, words))}",
                fix="judge it by its bits if it is bit-exact, or use a covered mode",
            )


def _group(
    contract: Contract, problem: Problem, inputs: Inputs, batch: int, kv_head: int
) -> Iterator[dict[str, Band]]:
    """The bands of one key head: one dict a query head, the last with dk and dv."""
    k, v = inputs.k[batch, :, kv_head], inputs.v[batch, :, kv_head]
    shared = {
        "k": cast_centred(k, contract.k_block),
        "v": cast_operand(v, contract.v_block),
    }
    parts: list[BackwardBounds] = []
    must: list[dict[str, Flags]] = []
    for q_head in range(kv_head * problem.group, (kv_head + 1) * problem.group):
        q, do = inputs.q[batch, :, q_head], inputs.do[batch, :, q_head]
        head = HeadOperands(
            q=cast_operand(q, contract.q_block),
            do=cast_operand(do, contract.do_block),
            do_input=do.astype(np.float64),
            seen=problem.mask(),
            scale=problem.scale,
            **shared,
        )
        flags = certain_nan(contract, head, _nan_rows(contract, {"q": q, "k": k, "v": v, "do": do}))
        fwd = forward(contract, head)
        bwd = backward(contract, head, fwd, store_bf16(fwd.o), problem.group)
        parts.append(bwd)
        must.append(flags)
        rows = {"o": fwd.o, "lse": fwd.lse, "dq": bwd.dq, "delta": bwd.delta}
        yield {name: _band(name, x, flags[name]) for name, x in rows.items()}
    yield {name: _sum(name, parts, must) for name in ("dk", "dv")}


def _nan_rows(contract: Contract, raw: dict[str, F32]) -> dict[str, Flags]:
    """Rows that certainly hold a NaN after the cast, and of dO before it."""
    rows: dict[str, Any] = {
        name: block_nan(raw[name], getattr(contract, f"{name}_block")) for name in ("q", "v", "do")
    }
    rows["k"] = np.broadcast_to(~np.isfinite(raw["k"]).all(), len(raw["k"]))
    return rows | {"do_input": np.isnan(raw["do"]).any(1)}


def _sum(name: str, parts: list[BackwardBounds], must: list[dict[str, Flags]]) -> Band:
    """The group's heads added up; their error bounds already hold the roundings of that sum."""
    lo = sum(getattr(part, name).lo for part in parts)
    hi = sum(getattr(part, name).hi for part in parts)
    slack = len(parts) * 2.0**-52 * sum(getattr(part, name).mag for part in parts)
    whole = getattr(parts[0], name) if len(parts) == 1 else closed(lo - slack, hi + slack)
    return _band(name, whole, np.logical_or.reduce([flags[name] for flags in must]))


def _band(name: str, x: Interval, must_nan: Flags) -> Band:
    return _STORES.get(name, single_band)(x, must_nan)


def _gather(problem: Problem, name: str, heads: list[dict[str, Band]]) -> Band:
    """Heads (N, C) stacked to the output's shape."""
    shape = problem.shapes()[name]
    bands = [head[name] for head in heads if name in head]

    def stacked(field: str) -> object:
        arrays = [getattr(band, field) for band in bands]
        if not arrays:
            return np.zeros(shape, dtype=bool if field.endswith("nan") else np.float64)
        count = len(arrays) // problem.batch
        block = np.stack(arrays).reshape(problem.batch, count, *arrays[0].shape)
        return block[..., 0] if len(shape) == 3 else block.swapaxes(1, 2)

    fields = ("lo", "hi", "mid", "below", "above", "must_nan", "may_nan")
    return Band(**{field: stacked(field) for field in fields})  # type: ignore[arg-type]
