"""The faults again under the bundled contract, whose bounds know truncation, ex2 and windows.

Operands, codes, P and dP come from the Hopper bits; everything after them is derived anew in
float64 and rounded once where the kernel has an fp32 number, so that one step at a time can go
wrong. (An fma takes dP unrounded: with one rounding more, elem is outside.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.ledger import TERMS_OF_MODE, ledger
from dmverify.spec.problem import Problem
from tests.ledger.toy import DOTS, bf16, contract_of, e4m3, make_inputs

PROBLEM = Problem(1, 2, 1, 70, 160, 64, causal=False)
WINDOW = 64


def f32(x):
    return np.asarray(x, np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def runs():
    inputs = make_inputs(PROBLEM, 4, spread=2.0, offset=2.0)
    kinds = {mode: contract_of(mode, "bundled") for mode in ("matched", "associated")}
    return inputs, {
        mode: interpret(contract, PROBLEM, inputs, Bits(), internals=True)
        for mode, contract in kinds.items()
    }


def derive(base, inputs, mode, fault):
    """Internals and outputs with every step after the codes done again; one step may be wrong."""
    x = base.internals
    v = x.v.repeat(PROBLEM.group, axis=1)
    v_forward = v * 1.125 if fault == "vmis" else v
    do = x.do * 1.5 if fault == "grad" else x.do
    weights, norm = x.weights.copy(), x.norm[..., None]
    if fault == "prob":  # a window read with twice its weight, in the sum of codes too
        weights[..., :WINDOW] *= 2
        norm = f32(1 / weights.sum(-1, keepdims=True))
    p = f32(weights * norm) if mode == "associated" else x.p
    if fault == "prob" and mode == "associated":
        weights, norm, p = x.weights, x.norm[..., None], f32(p * 1.001)
        p = f32(p / p.sum(-1, keepdims=True))
    if fault == "norm":
        norm, p = f32(norm * 1.01), f32(p * 1.01)
    dp = f32(do @ v.swapaxes(-1, -2)) if fault == "grad" else x.dp
    if fault == "accdP":
        dp = f32(do[..., :-8] @ v[..., :-8].swapaxes(-1, -2))
    kept = weights[..., :-WINDOW] if fault == "acc" else weights
    o32 = f32((kept @ v_forward[..., : kept.shape[-1], :]) * norm)
    o = e4m3(o32).astype(np.float64) if fault == "out" else bf16(o32).astype(np.float64)
    top = p.argmax(-1)[..., None]
    shift = f32(np.take_along_axis(dp, top, -1)) if mode == "shifted" else np.zeros_like(norm)
    t = f32(dp - shift) if mode == "shifted" else dp
    seen = slice(0, -WINDOW) if fault in ("match", "balance") else slice(None)
    a = (p * t)[..., seen].sum(-1, keepdims=True)
    if mode in DOTS:
        raw = inputs.do.swapaxes(1, 2).astype(np.float64)
        known = {"do_input": raw, "do": do, "o": o, "o32": o32}
        left, right = (known[name] for name in DOTS[mode])
        delta = f32((left * (np.roll(right, 1, 2) if fault == "dot" else right)).sum(-1)[..., None])
    else:
        delta = f32(a) if mode == "matched" else f32(a / p.sum(-1, keepdims=True))
    ds = f32(p * f32(t - delta))
    if fault == "elem":
        ds = ds + np.abs(ds) * 2.0**-20
    ds_cast = ds + 0.25 * np.abs(ds) if fault == "cast" else ds
    made = {"do": do, "weights": weights, "p": p, "dp": dp, "o32": o32, "ds": ds}
    rows = {"norm": norm[..., 0], "shift": shift[..., 0], "delta": delta[..., 0]}
    internals = replace(x, **made, **rows, ds_cast=ds_cast)
    outputs = replace(base.outputs, o=o.swapaxes(1, 2).astype(np.float32))
    extra = {"v_forward": x.v * 1.125} if fault == "vmis" else {}
    return {"internals": internals, "outputs": outputs, "inputs": inputs, **extra}


CASES = [(mode, fault) for mode, terms in TERMS_OF_MODE.items() for fault in (None, *terms, "cast")]


@pytest.mark.parametrize(("mode", "fault"), CASES)
def test_a_fault_leaves_its_own_term_outside(runs, mode, fault):
    inputs, bases = runs
    base = bases["associated" if mode == "associated" else "matched"]
    arguments = derive(base, inputs, mode, fault)
    taken = ledger(contract_of(mode, "bundled"), PROBLEM, **arguments)
    assert taken.closes.all()
    outside = [name for name in taken.names if (taken.margin(name) > 1).any()]
    assert outside == ([] if fault is None else [fault])
