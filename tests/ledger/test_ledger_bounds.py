"""The bounds: never passed by a conforming computation, close to what can be attained."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.floating import Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs, Trace
from dmverify.spec.formats import E4M3
from dmverify.spec.ledger import TERMS_OF_MODE, ledger
from dmverify.spec.ledger.bounds import BOUNDS
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes, path
from dmverify.spec.ledger.bounds.tensor_core import chain_error
from dmverify.spec.ledger.row_block import row_blocks
from dmverify.spec.ledger.terms import TERMS, ExactSums
from dmverify.spec.machine.hopper import wgmma
from dmverify.spec.problem import Problem
from tests.ledger.toy import bf16, contract_of, make_inputs, run

PROBLEM = Problem(1, 1, 1, 70, 130, 32)
ARITHMETIC = {"article": Single(), "bundled": Bits()}
INPUTS = {
    "plain": lambda p: make_inputs(p, 1),
    "sharp": lambda p: make_inputs(p, 2, spread=16.0),
    "offset": lambda p: make_inputs(p, 3, spread=3.0, offset=40.0),
    "large gradients": lambda p: scaled(make_inputs(p, 4), do=2.0**60),
    "small gradients": lambda p: scaled(make_inputs(p, 5), do=2.0**-80, v=2.0**-60),
    "no queries' weight": lambda p: scaled(make_inputs(p, 6), q=0.0),
}


def scaled(inputs: Inputs, **factors: float) -> Inputs:
    return Inputs(**{n: bf16(x * np.float32(factors.get(n, 1.0))) for n, x in inputs.items()})


def taken_from(contract, problem, inputs):
    made = interpret(contract, problem, inputs, ARITHMETIC[contract.base], internals=True)
    return ledger(contract, problem, inputs=inputs, internals=made.internals, outputs=made.outputs)


def test_every_term_has_a_bound_with_its_ground():
    proofs = pytest.importorskip("dmverify.proofs", reason="the provers are not installed")
    assert BOUNDS.keys() == TERMS.keys()
    known = {entry.id for entry in (*proofs.all_lemmas(), *proofs.CERTIFICATES)}
    assert {name for bound in BOUNDS.values() for name in bound.lemmas} - known == set()
    assert all(bound.cites and bound.lemmas for bound in BOUNDS.values())


@pytest.mark.parametrize("base", ARITHMETIC)
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("mode", TERMS_OF_MODE)
def test_conforming_rows_stay_inside(base, name, mode):
    ds_cast = "zero-sum" if mode == "matched" else "nearest"
    taken = taken_from(contract_of(mode, base, ds_cast), PROBLEM, INPUTS[name](PROBLEM))
    assert taken.closes.all()
    # article's rule has no floor: a tile of tiny dS gets a subnormal scale, and NaN above 464
    assert taken.defined.all() or (base, name) == ("article", "small gradients")
    assert {n: taken.worst(n) for n in taken.names if taken.worst(n).margin > 1} == {}


@pytest.mark.parametrize("base", ARITHMETIC)
def test_bounds_are_not_idle(base):
    """A bound a thousand times too wide would find nothing."""
    for mode in TERMS_OF_MODE:
        taken = taken_from(contract_of(mode, base), PROBLEM, make_inputs(PROBLEM, 1, spread=4.0))
        widest = {n: taken.margin(n).max() for n in taken.names if n != "vmis"}
        assert min(widest.values()) > 1e-3, (mode, widest)


def chain_codes(kind, rng, shape):
    """E4M3 codes that hurt: any, same sign, one large among small, subnormal."""
    codes = rng.integers(0, 256, shape).astype(np.uint8)
    codes = np.where((codes & 0x7F) == 0x7F, codes ^ 1, codes).astype(np.uint8)
    if kind == "same sign":
        codes = codes & 0x7F
    if kind == "one large":
        small = rng.integers(0x08, 0x28, shape)
        codes = np.where(np.arange(shape[1]) % 32 == 0, 0x7E, small).astype(np.uint8)
    if kind == "subnormal":
        codes = rng.integers(0, 8, shape).astype(np.uint8)
    return codes


@pytest.mark.parametrize("kind", ["any", "same sign", "one large", "subnormal"])
@pytest.mark.parametrize("length", [32, 64, 256])
def test_chain_error_bounds_the_tensor_core(kind, length):
    rng = np.random.default_rng(length)
    a, b = (chain_codes(kind, rng, (64, length)) for _ in range(2))
    x, y = (E4M3.decode(c).astype(np.float64) for c in (a, b))
    got = wgmma(a, b, np.zeros((64, 64), np.float32)).astype(np.float64)
    floor = np.full(64, 2.0**-6)
    bound = chain_error(np.abs(x), np.abs(y), x_floor=floor, y_floor=floor)
    error = np.abs(got - x @ y.T)  # the float64 product of codes is exact
    assert (error <= bound).all()
    if kind in ("any", "same sign"):  # else little is cut, and magnitudes alone cannot tell
        assert (error > bound / 64).any()


def test_chain_error_refuses_a_narrower_accumulator():
    """Two bits less in the window, as on a wrong model, must be seen."""
    rng = np.random.default_rng(1)
    a, b = (chain_codes("same sign", rng, (64, 32)) for _ in range(2))
    x, y = (E4M3.decode(c).astype(np.float64) for c in (a, b))
    products = x[:, None] * y[None]
    quantum = np.exp2(np.floor(np.log2(products.max(2))) - 11)[..., None]
    narrow = (np.trunc(products / quantum) * quantum).sum(2)
    floor = np.full(64, 2.0**-6)
    bound = chain_error(x, y, x_floor=floor, y_floor=floor)
    assert (np.abs(narrow - x @ y.T) > bound).any()


def sheet_of(made):
    trace = Trace(made.problem, made.inputs, made.internals, made.outputs)
    (block,) = row_blocks(made.contract, trace)
    return block


def test_bounds_are_rounded_outward():
    """elem's formula in fractions is never above the float64 that is returned, and close to it."""
    problem = Problem(1, 1, 1, 20, 90, 32)
    made = run(problem, contract_of("matched"), make_inputs(problem, 8, offset=30.0))
    block = sheet_of(made)
    sizes = Magnitudes(block, ExactSums(block))
    returned = BOUNDS["elem"](sizes)
    u = Fraction(1, 1 << 24)
    for i, bound in enumerate(returned):
        size = sum(
            Fraction(p) * abs(Fraction(d) - Fraction(block.delta[i]))
            for p, d in zip(block.p[i], block.dp[i], strict=True)
        )
        true = (2 * u + u * u) * size + int(sizes.keys[i]) * Fraction(1, 1 << 150)
        assert true <= Fraction(bound) <= true * (1 + Fraction(1, 10**10))


def test_path_counts_roundings():
    exact = (1 + Fraction(1, 1 << 24)) ** 9 - 1
    assert float(exact) == pytest.approx(float(path(9)), rel=1e-14)


def test_one_rounding_more_is_outside_elem():
    """RN(P RN(dP - delta)) with every rounding upward passes the bound of round to nearest."""
    made = run(PROBLEM, contract_of("matched"), make_inputs(PROBLEM, 9))
    x = made.internals
    d = (x.dp - x.delta[..., None]).astype(np.float64)
    exact = x.p * d
    made.internals.ds[...] = exact + np.abs(exact) * 2.0**-22
    taken = ledger(made.contract, PROBLEM, **made.arguments())
    assert taken.closes.all()
    assert (taken.margin("elem") > 1).any()
    assert (taken.margin("match") <= 1).all()


@pytest.mark.parametrize("mode", ["stale", "associated"])
def test_narrower_groups_of_p_have_their_own_floor(mode):
    """upstream groups P by 32 keys; judged by a group of 64 the same numbers still fit, looser."""
    contract = contract_of(mode, "upstream")
    inputs = make_inputs(PROBLEM, 10, spread=8.0)
    made = interpret(contract, PROBLEM, inputs, Single(), internals=True)
    parts = {"inputs": inputs, "internals": made.internals, "outputs": made.outputs}
    own, wide = (ledger(c, PROBLEM, **parts) for c in (contract, contract_of(mode, "article")))
    assert own.ok
    assert wide.ok
    assert (own.bounds["prob"] <= wide.bounds["prob"]).all()


@pytest.mark.parametrize("base", ARITHMETIC)
@pytest.mark.parametrize("variant", ["v-minus-inf", "do-nan", "around"])
def test_rows_that_a_nan_reaches_are_left_out_and_the_rest_judged(base, variant):
    case = generate(f"special/{variant}@0")
    taken = taken_from(contract_of("stale", base), case.problem, case.inputs)
    assert taken.ok
    assert taken.defined.all() == (variant == "around")
    assert not any(taken.values[n][~taken.defined].any() for n in taken.names)


@pytest.mark.parametrize("mode", ["stale", "shifted"])
@pytest.mark.parametrize(
    "case_id",
    [
        "tiny-amax/far-keys-100@0",
        "logit-size/logits-1e4@0",
        "logit-size/negative-scale@0",
        "outliers/one-element@0",
        "zero-blocks/everything@0",
        "duplicates/all@0",
        "rows/gap-256@0",
        "lengths/q129-k17@0",
        "cancelling-delta/offset-8@0",
    ],
)
def test_adversarial_families_stay_inside(case_id, mode):
    case = generate(case_id)
    taken = taken_from(contract_of(mode, "bundled"), case.problem, case.inputs)
    assert taken.closes.all()
    assert {n: taken.worst(n) for n in taken.names if taken.worst(n).margin > 1} == {}
