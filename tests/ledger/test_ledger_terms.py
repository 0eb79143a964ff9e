"""The terms against their definitions, evaluated literally in fractions.Fraction."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.ledger import TERMS_OF_MODE, ledger
from dmverify.spec.problem import Problem
from tests.ledger.toy import DOTS, contract_of, make_inputs, run

SMALL = Problem(batch=1, heads=2, kv_heads=1, queries=3, keys=5, head_dim=32)
MODES = tuple(TERMS_OF_MODE)


def literal(made, h, i):
    """Every term of row i of head h, one product at a time, as the formulas are written."""
    x, mode = made.internals, made.contract.delta
    row = {n: [F(v) for v in getattr(x, n)[0, h, i]] for n in ("p", "dp", "ds", "ds_cast", "do")}
    p, dp, ds, hat = row["p"], row["dp"], row["ds"], row["do"]
    keys, channels = range(len(p)), range(len(hat))
    raw = [F(float(v)) for v in made.inputs.do[0, i, h]]
    o32 = [F(v) for v in x.o32[0, h, i]]
    stored = [F(float(v)) for v in made.outputs.o[0, i, h]]
    known = {"do_input": raw, "do": hat, "o": stored, "o32": o32}
    read, o = (known[name] for name in DOTS.get(mode, ("do", "o")))
    vb = [[F(v) for v in r] for r in x.v[0, 0]]
    forward = made.extras.get("v_forward")
    vf = vb if forward is None else [[F(v) for v in r] for r in forward[0, 0]]
    norm = F(x.norm[0, h, i])
    q = [F(w) / norm if x.norm_divides else F(w) * norm for w in x.weights[0, h, i]]
    delta, shift = F(x.delta[0, h, i]), F(x.shift[0, h, i])
    pv = [sum(q[j] * vf[j][k] for j in keys) for k in channels]
    p2, dp2 = p, dp
    if "presented" in made.extras:
        p2, dp2 = ([F(v) for v in e[0, h, i]] for e in made.extras["presented"])
    return {
        "prob": sum(hat[k] * sum((p[j] - q[j]) * vb[j][k] for j in keys) for k in channels),
        "grad": sum((hat[k] - raw[k]) * pv[k] for k in channels),
        "acc": -sum(read[k] * (o32[k] - pv[k]) for k in channels),
        "out": -sum(read[k] * (o[k] - o32[k]) for k in channels),
        "dot": -(delta - sum(read[k] * o[k] for k in channels)),
        "norm": delta * (1 - sum(p)),
        "accdP": sum(p[j] * (dp[j] - sum(hat[k] * vb[j][k] for k in channels)) for j in keys),
        "elem": sum(ds[j] - p[j] * (dp[j] - shift - delta) for j in keys),
        "vmis": sum(hat[k] * sum(q[j] * (vb[j][k] - vf[j][k]) for j in keys) for k in channels),
        "match": sum(p2[j] * dp2[j] for j in keys) - delta,
        "rec": sum(p[j] * dp[j] - p2[j] * dp2[j] for j in keys),
        "balance": sum(p[j] * (dp[j] - shift) for j in keys) - delta * sum(p),
        "cast": sum(row["ds_cast"]) - sum(ds),
        "residual": sum(ds),
    }


def check(made):
    taken = ledger(made.contract, made.problem, **made.arguments())
    exact = {name: taken.fractions(name) for name in taken.names}
    for at, (_, h, i) in enumerate(taken.at):
        expected = literal(made, int(h), int(i))
        assert {n: exact[n][at] for n in taken.names} == {n: expected[n] for n in taken.names}
        assert sum(exact[n][at] for n in taken.terms) == expected["residual"]
        assert taken.residual[at] == float(expected["residual"])
    assert taken.closes.all()
    return taken


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("divides", [True, False])
def test_terms_are_what_the_formulas_say(mode, divides):
    made = run(SMALL, contract_of(mode), make_inputs(SMALL, 5, offset=1.0))
    made.internals = replace(made.internals, norm_divides=divides)
    check(made)


@pytest.mark.parametrize(
    ("mode", "fault"), [("stale", "vmis"), ("associated", "vmis"), ("matched", "rec")]
)
def test_optional_numbers_enter_their_own_terms(mode, fault):
    made = run(SMALL, contract_of(mode), make_inputs(SMALL, 6), fault)
    taken = check(made)
    assert taken.values[fault].any()


def test_arbitrary_numbers_close_too():
    """The identity telescopes: that is why each term needs a bound of its own."""
    made = run(SMALL, contract_of("stale"), make_inputs(SMALL, 7))
    rng = np.random.default_rng(0)
    names = ("weights", "o32", "p", "dp", "delta", "ds")
    noise = {n: rng.standard_normal(getattr(made.internals, n).shape) for n in names}
    made.internals = replace(made.internals, **noise)
    taken = check(made)
    assert not taken.ok


def test_rows_with_nan_are_reported_and_emptied():
    made = run(SMALL, contract_of("stale"), make_inputs(SMALL, 8))
    p = made.internals.p.copy()
    p[0, 1, 2, 0] = np.nan
    made.internals = replace(made.internals, p=p)
    taken = ledger(made.contract, SMALL, **made.arguments())
    assert [tuple(r) for r in taken.at[~taken.defined]] == [(0, 1, 2)]
    assert taken.closes.all()
    assert all(taken.values[n][~taken.defined] == 0 for n in taken.names)


@pytest.mark.parametrize("mode", MODES)
def test_dead_rows_have_empty_ledgers(mode):
    problem = replace(SMALL, queries=8, keys=5)  # bottom-right: queries 0 to 2 see nothing
    made = run(problem, contract_of(mode), make_inputs(problem, 9))
    taken = ledger(made.contract, problem, **made.arguments())
    dead = taken.at[:, 2] < 3
    assert taken.ok
    assert taken.defined.all()
    assert not any(taken.values[n][dead].any() for n in taken.names)


@pytest.mark.parametrize("empty", [{"queries": 0}, {"batch": 0}, {"keys": 0}])
def test_empty_calls_have_ledgers(empty):
    problem = replace(SMALL, causal=False, **empty)
    shapes = problem.shapes()
    made = run(SMALL, contract_of("stale"), make_inputs(SMALL, 9))
    rows = (problem.batch, problem.heads, problem.queries)

    def cut(name, x):
        if name in ("k", "v"):
            return np.zeros((problem.batch, problem.kv_heads, problem.keys, 32))
        return np.zeros(
            (*rows, *((problem.keys if x.shape[3] == 5 else 32,) if x.ndim > 3 else ()))
        )

    names = [n for n in made.internals.__dataclass_fields__ if n != "norm_divides"]
    internals = replace(made.internals, **{n: cut(n, getattr(made.internals, n)) for n in names})
    internals = replace(internals, norm=np.ones(rows))
    inputs = type(made.inputs)(
        **{n: np.zeros(shapes[n], np.float32) for n in ("q", "k", "v", "do")}
    )
    outputs = type(made.outputs)(
        **{n: np.zeros(shapes[n], np.float32) for n in ("o", "lse", "dq", "dk", "dv")}
    )
    taken = ledger(made.contract, problem, inputs=inputs, internals=internals, outputs=outputs)
    assert len(taken.at) == problem.batch * problem.heads * problem.queries
    assert taken.ok


def test_views_of_a_ledger_agree():
    made = run(SMALL, contract_of("matched"), make_inputs(SMALL, 10))
    taken = ledger(made.contract, SMALL, **made.arguments())
    worst = taken.worst("elem")
    at = taken.at.tolist().index(list(worst.at))
    assert taken.margin("elem")[at] == worst.margin == taken.margin("elem").max()
    assert taken.values["elem"][at] == worst.value
    assert taken.bounds["elem"][at] == worst.bound
    with pytest.raises(UnknownNameError, match="match, norm, elem, cast"):
        taken.worst("prob")


def test_margins_of_zero_and_of_no_room():
    made = run(SMALL, contract_of("stale"), make_inputs(SMALL, 11), "vmis")
    assert np.isinf(ledger(made.contract, SMALL, **made.arguments()).margin("vmis")).any()
    made = run(SMALL, contract_of("stale"), make_inputs(SMALL, 11))
    assert not ledger(made.contract, SMALL, **made.arguments()).margin("vmis").any()


def test_wrong_arguments_are_refused():
    made = run(SMALL, contract_of("stale"), make_inputs(SMALL, 12))
    wrong = made.arguments() | {"internals": replace(made.internals, p=made.internals.p[..., :4])}
    with pytest.raises(InputError, match="p with shape"):
        ledger(made.contract, SMALL, **wrong)
    pair = (made.internals.p, made.internals.dp)
    with pytest.raises(InputError, match="only the matched delta"):
        ledger(made.contract, SMALL, **made.arguments(), presented=pair)
