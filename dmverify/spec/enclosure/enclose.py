"""``enclosure``: for every output element, the numbers that a conforming kernel may return.

It follows the contract's steps in interval arithmetic, with the casts as sets of codes: by
induction, each interval holds every float32 number that any order of summation can present, so a
kernel outside is wrong about something and a conforming kernel is never outside. It encloses
against attention on the contract's own quantised operands, not against unquantised attention.

| contract | enclosed by |
|---|---|
| article, upstream with delta stale, consistent, matched | the intervals of this folder |
| any other | the steps interpreted in intervals (see ``interpreted``) |
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import numpy as np

from dmverify.spec.case import F64, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.backward import DELTAS, BackwardBounds, backward
from dmverify.spec.enclosure.bands import Band, bf16_band, single_band, store_bf16
from dmverify.spec.enclosure.forward import HeadOperands, forward
from dmverify.spec.enclosure.interpreted import interpreted
from dmverify.spec.enclosure.interval import Interval, closed
from dmverify.spec.enclosure.operands import cast_centred, cast_operand
from dmverify.spec.enclosure.special import must_nan
from dmverify.spec.problem import Problem

# The values of the contract's fields that the intervals of this folder know.
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

_NAMES = ("o", "lse", "dq", "dk", "dv", "delta")
_STORES = {"lse": single_band, "delta": single_band}


def covers(contract: Contract) -> bool:
    """Whether the intervals of this folder know every decision of the contract."""
    return all(getattr(contract, name) in words for name, words in COVERED.items())


def enclosure(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Band]:
    """The band of every output (o, lse, dq, dk, dv, delta), in the shapes of ``Outputs``.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D); NaN and infinity allowed.

    Raises:
        InputError: If the inputs hold what the contract's scale rule forbids.
    """
    if not covers(contract):
        return interpreted(contract, problem, inputs)
    with np.errstate(all="ignore"):
        heads = [
            part
            for batch in range(problem.batch)
            for kv_head in range(problem.kv_heads)
            for part in _group(contract, problem, inputs, batch, kv_head)
        ]
        flags = must_nan(contract, problem, inputs)
        return {
            name: _STORES.get(name, bf16_band)(_gather(problem, name, heads), flags[name])
            for name in _NAMES
        }


def _group(
    contract: Contract, problem: Problem, inputs: Inputs, batch: int, kv_head: int
) -> Iterator[dict[str, Interval]]:
    """The intervals of one key head: one dict a query head, the last with dk and dv."""
    k, v = inputs.k[batch, :, kv_head], inputs.v[batch, :, kv_head]
    shared = {
        "k": cast_centred(k, contract.k_block),
        "v": cast_operand(v, contract.v_block),
    }
    parts: list[BackwardBounds] = []
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
        fwd = forward(contract, head)
        bwd = backward(contract, head, fwd, store_bf16(fwd.o), problem.group)
        parts.append(bwd)
        yield {"o": fwd.o, "lse": fwd.lse, "dq": bwd.dq, "delta": bwd.delta}
    yield {name: _sum([getattr(part, name) for part in parts]) for name in ("dk", "dv")}


def _sum(parts: list[Interval]) -> Interval:
    """The group's heads added up; their error bounds already hold the roundings of that sum."""
    if len(parts) == 1:
        return parts[0]
    lo, hi, mag = (np.sum([getattr(x, end) for x in parts], axis=0) for end in ("lo", "hi", "mag"))
    slack = len(parts) * 2.0**-52 * mag
    return closed(lo - slack, hi + slack)


def _gather(problem: Problem, name: str, heads: list[dict[str, Interval]]) -> Interval:
    """Heads (N, C) stacked to the output's shape."""
    shape = problem.shapes()[name]
    found = [head[name] for head in heads if name in head]
    return Interval(
        *(_stacked(problem, shape, [getattr(x, end) for x in found]) for end in ("lo", "hi"))
    )


def _stacked(problem: Problem, shape: tuple[int, ...], arrays: list[F64]) -> F64:
    if not arrays:
        return np.zeros(shape)
    count = len(arrays) // problem.batch
    block = np.stack(arrays).reshape(problem.batch, count, *arrays[0].shape)
    return np.asarray(block[..., 0] if len(shape) == 3 else block.swapaxes(1, 2))
