"""FP8 attention simulated in float32 with torch: a kernel under test, not a reference.

It follows the published recipe of the article on its own: an E4M3 cast of its own for the codes,
torch's matmul for the float32 sums (any order), torch's exp and log. It shares no arithmetic with
``dmverify.spec``. In the recipe's order:

1. scale = amax / 448 (1 where amax is 0), code = E4M3(x / scale); K loses its mean over keys first
2. S = Q^ K^T * softmax scale, e = exp(S - row max), l = sum of e
3. e^ = e cast per row and key group; O = BF16((e^ V^) / l); LSE = row max + log(l)
4. P = e / l, dP = dO^ V^T, delta by the contract's mode, dS = P ((dP - shift) - delta)
5. P and dS cast per tile; dQ = dS^ K^ * scale, dK = dS^T Q^ * scale, dV = P^T dO^, in BF16

The cast gives NaN above 464, as the article's contract says. torch's own cast is not used: what it
makes of such numbers depends on torch's version (2.13 saturates, infinity too). Each step that a
known wrong kernel gets wrong is a method of its own, for mutants to override. Not covered:
contracts on codes, the associated delta, the zero-sum cast.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from dmverify.conformance.adapter import Forward, Support, Supported, Unsupported
from dmverify.conformance.kernels.batches import entry_by_entry
from dmverify.spec.case import F32, Case, Inputs, Internals, Outputs
from dmverify.spec.contracts import Contract, Rows, get_contract
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

E4M3_MAX = 448.0
BLOCK = 1 << 21  # pairs of a query and a key that are in memory at a time, all heads
STEP = 128  # queries; every tile and block of operands divides it
E4M3_BITS = 3  # of a normal number after its leading one
E4M3_LEAST_BINADE = -6  # below it the unit stays that of the subnormals
EXPONENT_FIELD = 0x7F80_0000  # of a float32 number
DELTAS = ("stale", "consistent", "matched", "renormalized", "shifted")

# What the simulation does, as contract fields: everything else is unsupported.
SERVED: dict[str, tuple[object, ...]] = {
    "operand_rule": ("amax",),
    "scale_span": ("head",),
    "saturate": (False,),
    "centre_k": ("mean",),
    "normaliser": ("unrounded",),
    "ds_cast": ("nearest",),
    "delta": DELTAS,
    **dict.fromkeys(("q_format", "k_format", "v_format", "do_format", "ds_format"), ("e4m3",)),
    "v_scales": ("rows",),
    "store": ("bf16",),
    **dict.fromkeys(("p_scale", "ds_scale"), (None,)),
}


@dataclass(frozen=True)
class Operands:
    """Heads first, (B, H, N, D); K and V repeated to the query heads, before and after the cast.

    ``seen`` is who sees whom, (Nq, Nk).
    """

    q: Tensor
    do: Tensor
    q8: Tensor
    k8: Tensor
    v8: Tensor
    do8: Tensor
    k_mean: Tensor
    seen: Tensor

    def block(self, start: int, stop: int) -> Operands:
        """The operands of queries ``start`` to ``stop``, and of all keys."""
        cut = {name: getattr(self, name)[:, :, start:stop] for name in ("q", "do", "q8", "do8")}
        return replace(self, seen=self.seen[start:stop], **cut)


@dataclass(frozen=True)
class ForwardState:
    """What the backward needs of the forward; (B, H, Nq, ...)."""

    e: Tensor
    e8: Tensor
    l: Tensor  # noqa: E741 - the field's symbol
    o32: Tensor
    o: Tensor
    lse: Tensor

    @cached_property
    def p(self) -> Tensor:
        """The probabilities."""
        return self.e / self.l


@dataclass(frozen=True)
class BackwardState:
    """The intermediate results of the backward; gradients per key head, dK and dV in float32."""

    p: Tensor
    p8: Tensor
    dp: Tensor
    shift: Tensor
    delta: Tensor
    ds: Tensor
    ds8: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor


class Simulation:
    """The simulation as a kernel under test (see ``dmverify.conformance.adapter.Kernel``)."""

    contract = "article"

    @property
    def info(self) -> Provenance:
        """Name, and the hash of this source."""
        source = inspect.getsource(sys.modules[type(self).__module__])
        return Provenance(
            kernel=type(self).__name__.lower(),
            source=hashlib.sha256(source.encode()).hexdigest(),
            compiler=f"torch {torch.__version__}",
        )

    def supports(self, case: Case) -> Support:
        """Contracts whose every decision is the simulation's."""
        contract = get_contract(case.contract)
        if not isinstance(contract.schedule, Rows):
            return Unsupported(f"schedule={contract.schedule.kind}; it takes whole rows")
        if contract.schedule.cast != "tiles":
            return Unsupported(f"cast={contract.schedule.cast}; it casts in tiles")
        for name, words in SERVED.items():
            found = getattr(contract if hasattr(contract, name) else contract.schedule, name)
            if found not in words:
                does = ", ".join(map(str, words))
                return Unsupported(f"{name}={found}; it does {does}")
        return Supported()

    @entry_by_entry
    def forward(self, case: Case) -> Forward:
        """O and LSE."""
        contract = get_contract(case.contract)
        states = (self._forward(contract, case.problem, ops) for ops in self._blocks(case))
        o, lse = zip(*((state.o, state.lse) for state in states), strict=True)
        return Forward(o=_array(_joined(o), back=True), lse=_array(_joined(lse)))

    @entry_by_entry
    def backward(self, case: Case) -> Outputs:
        """Every output, delta among them."""
        rows, sums = [], []
        for _, fwd, bwd in self._run(case):
            rows.append((fwd.o, fwd.lse, bwd.dq, bwd.shift + bwd.delta))
            sums.append((bwd.dk, bwd.dv))
        o, lse, dq, delta = (_joined(parts) for parts in zip(*rows, strict=True))
        dk, dv = (self._store(reduce(torch.add, parts)) for parts in zip(*sums, strict=True))
        return Outputs(
            o=_array(o, back=True), lse=_array(lse), delta=_array(delta),
            dq=_array(dq, back=True), dk=_array(dk, back=True), dv=_array(dv, back=True),
        )  # fmt: skip

    @entry_by_entry
    def internals(self, case: Case) -> Internals:
        """The numbers of the dS step and before, exactly as they were."""
        group, start = case.problem.group, 0
        found: dict[str, Tensor] = {}
        for ops, fwd, bwd in self._run(case):
            named = {
                "q": ops.q8, "do": ops.do8,
                "weights": fwd.e8, "norm": fwd.l[..., 0], "o32": fwd.o32,
                "p": bwd.p, "dp": bwd.dp,
                "shift": bwd.shift, "delta": bwd.delta,
                "ds": bwd.ds, "ds_cast": bwd.ds8, "p_cast": bwd.p8,
            }  # fmt: skip
            for name, x in named.items():
                if name not in found:
                    shape = (*x.shape[:2], case.problem.queries, *x.shape[3:])
                    found[name] = x.new_zeros(shape, dtype=torch.float64)
                found[name][:, :, start : start + x.shape[2]] = x
            start += ops.q.shape[2]
        found |= {"k": ops.k8[:, ::group].double(), "v": ops.v8[:, ::group].double()}
        wide: dict[str, Any] = {name: x.numpy() for name, x in found.items()}
        assert wide.keys() | {"norm_divides"} == {field.name for field in fields(Internals)}
        return Internals(**wide, norm_divides=True)

    def _run(self, case: Case) -> Iterator[tuple[Operands, ForwardState, BackwardState]]:
        contract = get_contract(case.contract)
        for ops in self._blocks(case):
            fwd = self._forward(contract, case.problem, ops)
            yield ops, fwd, self._backward(contract, case.problem, ops, fwd)

    def _blocks(self, case: Case) -> Iterator[Operands]:
        """Blocks of queries, so that memory stays in bounds; small cases are one block."""
        ops = self._operands(get_contract(case.contract), case)
        heads, queries = ops.q.shape[0] * ops.q.shape[1], case.problem.queries
        rows = max(BLOCK // max(heads * case.problem.keys, 1) // STEP, 1) * STEP
        if queries <= rows:
            yield ops
            return
        for start in range(0, queries, rows):
            yield ops.block(start, start + rows)

    def _operands(self, contract: Contract, case: Case) -> Operands:
        group = case.problem.group
        q, k, v, do = self._tensors(case)
        k_mean = k.sum(-2, keepdim=True) / k.new_full((), max(k.shape[-2], 1))  # as in _cast
        k8 = cast_rows(k - k_mean, contract.k_block)
        v8 = cast_rows(v, contract.v_block)
        return Operands(
            q=q,
            do=do,
            q8=cast_rows(q, contract.q_block),
            k8=self._to_query_heads(k8, group),
            v8=self._to_query_heads(v8, group),
            do8=cast_rows(do, contract.do_block),
            k_mean=self._to_query_heads(k_mean, group),
            seen=self._mask(case.problem),
        )

    def _tensors(self, case: Case) -> tuple[Tensor, ...]:
        """Q, K, V and dO, heads first."""
        inputs = self._inputs(case).items()
        return tuple(torch.from_numpy(x.transpose(0, 2, 1, 3).copy()) for _, x in inputs)

    def _inputs(self, case: Case) -> Inputs:
        return case.inputs

    def _to_query_heads(self, x: Tensor, group: int) -> Tensor:
        return x.repeat_interleave(group, dim=1)

    def _mask(self, problem: Problem) -> Tensor:
        """Who sees whom, (Nq, Nk)."""
        i = torch.arange(problem.queries)[:, None]
        j = torch.arange(problem.keys)[None, :]
        every = torch.ones(problem.queries, problem.keys, dtype=torch.bool)
        return j <= i + (problem.keys - problem.queries) if problem.causal else every

    def _forward(self, contract: Contract, problem: Problem, ops: Operands) -> ForwardState:
        seen = ops.seen
        scores = ops.q8 @ ops.k8.mT * problem.scale
        scores = scores.masked_fill(~seen, -math.inf)
        peak = _max(scores)
        live = seen.any(-1)[:, None]
        e = torch.where(seen, self._exp(scores - peak.where(live, torch.zeros(()))), 0.0)
        l = self._row_sum(e)  # noqa: E741
        e8 = self._cast_weights(e, _rows(contract).p_group)
        divisor = l.where(live, torch.ones(()))
        o32 = (e8 @ ops.v8) / divisor
        taken_off = problem.scale * (ops.q * ops.k_mean).sum(-1, keepdim=True)
        lse = peak + torch.log(divisor) + taken_off
        lse = lse.where(live, torch.tensor(-math.inf))[..., 0]
        return ForwardState(e=e, e8=e8, l=divisor, o32=o32, o=self._store(o32), lse=lse)

    def _exp(self, x: Tensor) -> Tensor:
        return torch.exp(x)

    def _row_sum(self, e: Tensor) -> Tensor:
        return e.sum(-1, keepdim=True)

    def _cast_weights(self, e: Tensor, group: int) -> Tensor:
        return cast_columns(e, group)

    def _store(self, x: Tensor) -> Tensor:
        return x.bfloat16().float()

    def _to_key_heads(self, x: Tensor, kv_heads: int) -> Tensor:
        """Sum the query heads that share a key head."""
        batch, heads, *rest = x.shape
        return x.reshape(batch, kv_heads, heads // kv_heads, *rest).sum(2)

    def _backward(
        self, contract: Contract, problem: Problem, ops: Operands, fwd: ForwardState
    ) -> BackwardState:
        p = fwd.p
        dp = ops.do8 @ ops.v8.mT
        shift = self._shift(contract.delta, fwd, dp)
        delta = self._delta(contract.delta, ops, fwd, dp - shift)
        ds = p * (dp - shift - delta)
        tile = _rows(contract).tile
        ds8, p8 = self._cast_ds(ds, tile), cast_tiles(p, tile)
        scale, kv_heads = problem.scale, problem.kv_heads
        return BackwardState(
            p=p, p8=p8, dp=dp, shift=shift[..., 0], delta=delta[..., 0], ds=ds, ds8=ds8,
            dq=self._store(self._dq(ds8, ops, scale)),
            dk=self._to_key_heads(self._dk(ds8, ops, scale), kv_heads),
            dv=self._to_key_heads(p8.mT @ ops.do8, kv_heads),
        )  # fmt: skip

    def _shift(self, mode: str, fwd: ForwardState, dp: Tensor) -> Tensor:
        """What is subtracted before delta: dP at the row's largest e (key 0 if none), or 0."""
        if mode != "shifted" or dp.shape[-1] == 0:
            return torch.zeros_like(fwd.l)
        live = fwd.e.amax(-1, keepdim=True) > 0
        return dp.gather(-1, fwd.e.argmax(-1, keepdim=True).where(live, 0))

    def _delta(self, mode: str, ops: Operands, fwd: ForwardState, dp: Tensor) -> Tensor:
        """The correction; ``dp`` has the shift taken off."""
        if mode in ("renormalized", "shifted"):
            return (fwd.e * dp).sum(-1, keepdim=True) / fwd.l
        product = {
            "stale": lambda: ops.do * fwd.o,
            "consistent": lambda: ops.do8 * fwd.o,
            "matched": lambda: fwd.p * dp,
        }[mode]()
        return product.sum(-1, keepdim=True)

    def _cast_ds(self, ds: Tensor, tile: int) -> Tensor:
        return cast_tiles(ds, tile)

    def _dq(self, ds8: Tensor, ops: Operands, scale: float) -> Tensor:
        return ds8 @ ops.k8 * scale

    def _dk(self, ds8: Tensor, ops: Operands, scale: float) -> Tensor:
        return ds8.mT @ ops.q8 * scale


def _rows(contract: Contract) -> Rows:
    """The schedule of a contract that ``supports`` lets through."""
    assert isinstance(contract.schedule, Rows)
    return contract.schedule


def cast_rows(x: Tensor, rows: int | None) -> Tensor:
    """Cast (B, H, N, D) to E4M3 and back, one scale per head and block of rows."""
    return _cast(x, rows or max(x.shape[-2], 1), max(x.shape[-1], 1))


def cast_columns(x: Tensor, columns: int) -> Tensor:
    """Cast (B, H, N, M) to E4M3 and back, one scale per row and group of columns."""
    return _cast(x, 1, columns)


def cast_tiles(x: Tensor, side: int) -> Tensor:
    """Cast (B, H, N, M) to E4M3 and back, one scale per square tile."""
    return _cast(x, side, side)


def _cast(x: Tensor, rows: int, columns: int) -> Tensor:
    """One scale per tile of rows x columns; the last tile of a side may be partial."""
    n, m = x.shape[-2:]
    if x.numel() == 0:
        return x
    rows, columns = min(rows, n), min(columns, m)
    missing = -m % columns, -n % rows
    padded = pad(x, (0, missing[0], 0, missing[1])) if any(missing) else x
    batch, heads, height, width = padded.shape
    tiles = padded.reshape(batch, heads, height // rows, rows, width // columns, columns)
    amax = tiles.abs().amax((-3, -1), keepdim=True)
    # A tensor: by a Python number a GPU does not divide, it multiplies with the rounded 1 / 448.
    scale = torch.where(amax == 0, 1.0, amax / amax.new_full((), E4M3_MAX))
    back = to_e4m3(tiles / scale) * scale
    return back.reshape(padded.shape)[..., :n, :m]


def to_e4m3(x: Tensor) -> Tensor:
    """The nearest E4M3 numbers, ties to even, as float32; NaN beyond 464, and for infinity.

    Gradients pass as if nothing were rounded (``dmverify.attack`` follows them).
    """
    if x.requires_grad:
        return x + (_to_e4m3(x.detach()) - x.detach())
    return _to_e4m3(x)


def _to_e4m3(x: Tensor) -> Tensor:
    # A number without its sign and fraction is the power of two at or below it, infinity for NaN.
    binade = (x.view(torch.int32) & EXPONENT_FIELD).view(torch.float32)
    unit = binade.clamp_(min=2.0**E4M3_LEAST_BINADE).mul_(2.0**-E4M3_BITS)
    near = x.div(unit).round_().mul_(unit)  # powers of two: both operations are exact
    beyond = ~(near.abs() <= E4M3_MAX)
    return near.masked_fill_(beyond, torch.nan) if beyond.any() else near


def _joined(blocks: Sequence[Tensor]) -> Tensor:
    """Blocks of queries, (B, H, Nq, ...)."""
    return blocks[0] if len(blocks) == 1 else torch.cat(tuple(blocks), 2)


def _max(scores: Tensor) -> Tensor:
    """The row maximum, (B, H, Nq, 1); -inf where there is no key at all."""
    if scores.shape[-1] == 0:
        return scores.new_full((*scores.shape[:-1], 1), -math.inf)
    return scores.amax(-1, keepdim=True)


def _array(x: Tensor, *, back: bool = False) -> F32:
    """To numpy; ``back`` turns (B, H, N, D) into (B, N, H, D)."""
    array: F32 = (x.permute(0, 2, 1, 3) if back else x).contiguous().numpy()
    return array.astype(np.float32, copy=False)
