"""The same numbers in other memory layouts: a kernel has to honour strides and offsets.

The arrays of the case are numpy views with these layouts; an adapter that hands tensors to a kernel
keeps them (element strides, offset into the base, and the base's other elements).

| variant | layout |
|---|---|
| packed | q, k, v are slices of one (B, N, H + 2 Hkv, D) buffer |
| heads-first | stored (B, H, N, D), seen as (B, N, H, D) |
| sparse-rows | every row of D is followed by 8 unused elements |
| expanded | one key head's k and v for all key heads, head stride 0 |
| misaligned | the first element is one element behind an allocation's start |
| far-rows | tokens so far apart that the last is more than 2^31 elements away |
| far-heads, far-batches | the same for heads and batches |

Far means all four tensors, each in memory of its own: an offset that wraps in one of them alone
shows. A tensor that has one head or batch is spread along its tokens instead. Not covered: offsets
beyond 2^32 elements, which an unsigned 32-bit number still holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.errors import InputError
from dmverify.memory import untouched
from dmverify.spec.case import F32, Inputs
from dmverify.spec.problem import Problem

UNUSED = np.float32(
    -3.0
)  # what lies between the elements of a view; a finite number, to be noticed
GAP = 8
FAR = 2**31  # elements: the last offset is no signed 32-bit number
TOKENS = 1  # the axis of (B, N, H, D)

LAYOUTS = {
    **{
        name: Variant({"layout": name})
        for name in ("packed", "heads-first", "sparse-rows", "expanded", "misaligned")
    },
    **{
        name: Variant({"layout": name}, problem, ("on-demand",))
        for name, problem in (
            ("far-rows", {}),
            ("far-heads", {}),
            ("far-batches", {"batch": 2, "heads": 2, "kv_heads": 1, "queries": 65, "keys": 65}),
        )
    },
}


def layouts(draws: Draws, problem: Problem, *, layout: str) -> Inputs:
    """Gaussian tensors in one of the layouts."""
    made = gaussian(draws, problem)
    if layout == "expanded":
        for name in ("k", "v"):
            made[name] = np.broadcast_to(made[name][:, :, :1], made[name].shape)
    return _LAYOUTS[layout](as_inputs(made))


def framed(x: F32, fill: float) -> F32:
    """A copy of ``x`` as the inside of a larger array full of ``fill``."""
    frame = np.full([size + 2 for size in x.shape], fill, dtype=np.float32)
    inside = frame[tuple(slice(1, -1) for _ in x.shape)]
    inside[...] = x
    return inside


def _packed(inputs: Inputs) -> Inputs:
    if inputs.q.shape[1] != inputs.k.shape[1]:
        raise InputError(
            f"{inputs.q.shape[1]} queries and {inputs.k.shape[1]} keys",
            rule="a packed buffer has as many queries as keys",
            fix="set queries and keys to the same number",
        )
    buffer = np.concatenate([inputs.q, inputs.k, inputs.v], axis=2)
    heads, kv_heads = inputs.q.shape[2], inputs.k.shape[2]
    q, k, v = np.split(buffer, [heads, heads + kv_heads], axis=2)
    return Inputs(q=q, k=k, v=v, do=inputs.do)


def _each(change: Callable[[F32], F32]) -> Callable[[Inputs], Inputs]:
    return lambda inputs: Inputs(**{name: change(x) for name, x in inputs.items()})


def _heads_first(x: F32) -> F32:
    return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)


def _sparse_rows(x: F32) -> F32:
    buffer = np.full((*x.shape[:-1], x.shape[-1] + GAP), UNUSED, dtype=np.float32)
    buffer[..., : x.shape[-1]] = x
    return buffer[..., : x.shape[-1]]


def _misaligned(x: F32) -> F32:
    buffer = np.full(x.size + 1, UNUSED, dtype=np.float32)
    buffer[1:] = x.reshape(-1)
    return buffer[1:].reshape(x.shape)


def _expanded(inputs: Inputs) -> Inputs:
    one = {name: np.ascontiguousarray(getattr(inputs, name)[:, :, :1]) for name in ("k", "v")}
    wide = {name: np.broadcast_to(x, getattr(inputs, name).shape) for name, x in one.items()}
    return Inputs(q=inputs.q, do=inputs.do, **wide)


def _far_apart(axis: int) -> Callable[[F32], F32]:
    """Spreads an axis, or the tokens where it has one entry, over more than 2^31 elements."""

    def view(x: F32) -> F32:
        spread = axis if x.shape[axis] > 1 else TOKENS
        entries = x.shape[spread]
        if entries < 2:
            raise InputError(
                f"a tensor of shape {x.shape}",
                rule="what is spread out has at least two tokens",
                fix="set queries and keys to 2 or more",
            )
        shape = [n for at, n in enumerate(x.shape) if at != spread]
        steps = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        stride = FAR // (entries - 1) + 1
        steps.insert(spread, stride)
        base = untouched(4 * (stride * (entries - 1) + math.prod(shape))).view(np.float32)
        far = np.lib.stride_tricks.as_strided(base, x.shape, [4 * step for step in steps])
        far[...] = x
        return far

    return view


_LAYOUTS: dict[str, Callable[[Inputs], Inputs]] = {
    "packed": _packed,
    "heads-first": _each(_heads_first),
    "sparse-rows": _each(_sparse_rows),
    "expanded": _expanded,
    "misaligned": _each(_misaligned),
    "far-rows": _each(_far_apart(TOKENS)),
    "far-heads": _each(_far_apart(2)),
    "far-batches": _each(_far_apart(0)),
}
