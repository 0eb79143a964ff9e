"""The premises of the theorems on whole rows are what a run does, number for number."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.proofs.ties_rows import TIES
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.ledger.terms import TERMS_OF_MODE
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import InOrder

PROBLEM = Problem(1, 1, 1, 64, 64, 32, causal=False)
MODES = tuple(TERMS_OF_MODE)
TINY = {"q": 3, "k": 0, "v": -60, "do": -50}  # dS of small P underflows, its tile is normal


def single(x):
    return np.asarray(x, np.float32).astype(np.float64)


def chain(a, b):
    """The fp32 dot over the last axis, in order, products rounded."""
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape)[:-1])
    for k in range(a.shape[-1]):
        total = single(total + single(a[..., k] * b[..., k]))
    return total


def run(mode, sizes=None):
    rng = np.random.default_rng(7)
    drawn = {}
    for name in ("q", "k", "v", "do"):
        x = rng.standard_normal((1, 64, 1, 32)) * 2.0 ** (sizes or {}).get(name, 0)
        drawn[name] = BF16.round(x.astype(np.float32))
    normaliser = {"normaliser": "codes"} if mode == "associated" else {}
    contract = get_contract("article", delta=mode, **normaliser)
    got = interpret(contract, PROBLEM, Inputs(**drawn), InOrder(), internals=True)
    return drawn, got.internals, got.outputs


def predicates(mode, drawn, x, outputs):
    """What each premise says of a head, by the name of its predicate."""
    p, dp, ds, do, v = x.p[0, 0], x.dp[0, 0], x.ds[0, 0], single(x.do[0, 0]), single(x.v[0, 0])
    shift, delta = x.shift[0, 0][:, None], x.delta[0, 0][:, None]
    o32, o = x.o32[0, 0], outputs.o[0, :, 0].astype(np.float64)
    w, norm = x.weights[0, 0], x.norm[0, 0][:, None]
    moved = single(dp - shift)
    totals = chain(p, np.ones_like(p))
    deltas = {
        "stale": chain(drawn["do"][0, :, 0].astype(np.float64), o),
        "consistent": chain(do, o),
        "associated": chain(do, o32),
        "matched": chain(p, dp),
        "renormalized": single(chain(p, dp) / totals),
        "shifted": single(chain(p, moved) / totals),
    }
    scale = single(np.abs(ds).max() / 448)
    code = E4M3.decode(E4M3.encode(single(ds / scale).astype(np.float32)))
    return {
        "products": np.array_equal(dp, chain(do[:, None], v[None])),
        "outputs": np.array_equal(o32, single(chain(single(w)[:, None], v.T[None]) / norm)),
        "stored": np.array_equal(o, BF16.round(o32.astype(np.float32))),
        "dot_of": np.array_equal(delta[:, 0], deltas[mode]),
        "elements": np.array_equal(ds, single(p * single(moved - delta))),
        "share": mode != "associated" or np.array_equal(p, single(single(w) / norm)),
        "sum_of": mode != "associated" or np.array_equal(norm[:, 0], chain(w * 0 + 1, single(w))),
        "nearest_codes": np.array_equal(x.ds_cast[0, 0], scale * code.astype(np.float64)),
    }


@pytest.mark.parametrize("sizes", [None, TINY], ids=["ordinary", "tiny"])
@pytest.mark.parametrize("mode", MODES)
def test_the_premises_are_what_a_run_does(mode, sizes):
    found = predicates(mode, *run(mode, sizes))
    assert all(found.values()), found


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_that_expands_ds_is_none_of_them(mode):
    """P dP - P delta: the form that the theorems are not about."""
    drawn, x, outputs = run(mode)
    p, moved = x.p, single(x.dp - x.shift[..., None])
    expanded = single(single(p * moved) - single(p * x.delta[..., None]))
    assert not predicates(mode, drawn, replace(x, ds=expanded), outputs)["elements"]


def test_every_delta_has_a_tie():
    names = {tie.theorem for tie in TIES}
    assert {f"{mode}_row" for mode in MODES} <= names
