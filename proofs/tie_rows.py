"""Rows of numbers on which a bound and its theorem are compared: no attention, any magnitudes.

A ``Regime`` says how large each tensor of a row is, so that each summand of a bound is once the
largest: products that underflow, one key that holds most of a row, dP far from delta, values that
are powers of two. The numbers are random, of binary32 where the theorems ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes
from dmverify.spec.ledger.row_block import RowBlock, tile_max, tops_of
from dmverify.spec.ledger.terms import ExactSums
from dmverify.spec.problem import Problem

ROWS, KEYS, CHANNELS = 3, 8, 32
CHAIN_STEPS = 8


@dataclass(frozen=True)
class Regime:
    """Powers of two that a row's tensors are multiplied with; 0 leaves numbers of order 1.

    Attributes:
        dp: Of dP.
        do: Of dO.
        v: Of V.
        delta: Of delta.
        p: Of all P but the first key's, which then holds the rest.
        whole: Of all P.
        ds: Of dS, and what its codes stand for.
        o: Of O before its store.
        keys: How many keys a row has.
        presented: Whether the delta pass reads numbers of its own.
    """

    dp: int = 0
    do: int = 0
    v: int = 0
    delta: int = 0
    p: int = 0
    whole: int = 0
    ds: int = 0
    o: int = 0
    keys: int = KEYS
    presented: bool = False


REGIMES: MappingProxyType[str, Regime] = MappingProxyType(
    {
        "ordinary": Regime(),
        "underflow": Regime(dp=-140, delta=-140),
        "delta far": Regime(delta=20),
        "delta near": Regime(delta=-20),
        "sharp": Regime(p=-40),
        "tiny P": Regime(whole=-140),
        "vanishing P": Regime(p=-145),
        "presented": Regime(presented=True),
        "presented, tiny P": Regime(presented=True, whole=-140),
        "tiny operands": Regime(do=-90, v=-80),
        "tiny dO": Regime(do=-140),
        "tiny values": Regime(v=-140),
        "tiny output": Regime(o=-140),
        "tiny dS": Regime(ds=-30),
        "small dS": Regime(ds=-14),
        "one tile": Regime(keys=64),
    }
)


def magnitudes(
    contract: Contract, regime: Regime, *, seed: int = 0, rows: int = ROWS
) -> Magnitudes:
    """Rows of a regime as the ledger's bounds take them."""
    block = _block(contract, regime, np.random.default_rng(seed))
    return Magnitudes(block, ExactSums(block))


def _block(contract: Contract, regime: Regime, rng: np.random.Generator) -> RowBlock:
    rows, keys = ROWS, regime.keys
    pair = rows, keys
    p = rng.uniform(0.5, 1.0, pair)
    p[:, 1:] *= 2.0**regime.p
    p = single(p / p.sum(axis=1, keepdims=True) * 2.0**regime.whole)
    ds = _gradient(rng, pair, regime.ds)
    wide = {name: rng.standard_normal((rows, CHANNELS)) for name in ("q", "do", "o32", "do_input")}
    v = single(rng.standard_normal((keys, CHANNELS)) * 2.0**regime.v)
    wide["do"] = single(wide["do"] * 2.0**regime.do)
    wide["do_input"] = single(wide["do_input"] * 2.0**regime.do)
    wide["o32"] = single(wide["o32"] * 2.0**regime.o)
    dp = single(rng.standard_normal(pair) * 2.0**regime.dp)
    tile = contract.schedule.tile  # type: ignore[union-attr]  # rows and windows have one
    heads = {name: x[None, None] for name, x in (("p", p), ("ds", ds))}
    v_norm = tile_max(np.linalg.norm(v, axis=1)[None], tile)
    divides = contract.schedule.kind == "rows"
    shifted = contract.delta == "shifted"
    delta = single(rng.uniform(0.5, 1.0, rows) * 2.0**regime.delta)
    k = single(rng.standard_normal((keys, CHANNELS)))
    return RowBlock(
        contract=contract,
        problem=Problem(1, 1, 1, rows, keys, CHANNELS, causal=False),
        at=(0, 0, 0),
        heads=1,
        weights=single(p * 2.5),
        p=p,
        dp=dp,
        ds=ds,
        ds_cast=_CASTS[contract.ds_cast](ds),
        p_presented=single(p * 1.25),
        dp_presented=dp,
        **wide,
        o=single(wide["o32"] * 1.001),
        norm=np.full(rows, 2.5 if divides else 0.4),
        shift=dp[:, 0] if shifted else np.zeros(rows),
        delta=delta,
        do_scale=np.full(rows, 2.0**regime.do / 64),
        p_top=tops_of(heads["p"], tile)[0, 0],
        ds_top=tops_of(heads["ds"], tile)[0, 0],
        k=k,
        v=v,
        v_forward=v,
        v_scale=np.full(keys, 2.0**regime.v / 64),
        k_norm=np.full(rows, np.linalg.norm(k, axis=1).max()),
        v_norm=np.repeat(v_norm, rows, axis=0),
        norm_divides=divides,
        presented=regime.presented,
        defined=np.ones(rows, dtype=bool),
    )


def single(x: F64) -> F64:
    """Rounded to binary32, as float64."""
    return np.asarray(x, np.float32).astype(np.float64)


def _gradient(rng: np.random.Generator, pair: tuple[int, int], size: int) -> F64:
    """dS whose tile's scale is 1, most of it 2^size of the largest."""
    ds = rng.uniform(-1.0, 1.0, pair) * 2.0 ** (8 + size)
    ds[:, 0] = E4M3.max_finite
    ds[:, -pair[1] // CHAIN_STEPS :] *= 2.0**-30  # the last of each chain leaves little
    return single(ds)


def _nearest(ds: F64) -> F64:
    codes = E4M3.encode(ds.astype(np.float32))
    return np.asarray(E4M3.decode(codes), np.float64)


def _zero_sum(ds: F64) -> F64:
    """Along the chains 8 J + 2 t + b, each error added to the next number."""
    out, carry = np.zeros_like(ds), np.zeros((len(ds), ds.shape[1] // 2))
    for key in range(ds.shape[1]):
        lane = key % 8 // 2
        argument = single(ds[:, key] + carry[:, lane])
        out[:, key] = _nearest(argument)
        carry[:, lane] = argument - out[:, key]
    return out


_CASTS = {"nearest": _nearest, "zero-sum": _zero_sum}
