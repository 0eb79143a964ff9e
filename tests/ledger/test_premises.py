"""Premises are obligations: evaluated on the case, and a bound whose premise fails says nothing."""

import numpy as np
import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.spec.arithmetic import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.bounds.premises import PREMISES as CLOSED
from dmverify.spec.case import Case, Inputs
from dmverify.spec.constants import CONSTANTS
from dmverify.spec.contracts import get_contract
from dmverify.spec.ledger import ledger
from dmverify.spec.ledger.bounds import BOUNDS, premises
from dmverify.spec.ledger.bounds.constants import U
from dmverify.spec.ledger.bounds.premises import PREMISES
from dmverify.spec.premises import Premise
from dmverify.spec.problem import Problem
from tests.ledger.toy import bf16

_UNDERFLOW = "an underflow counts as 2^-150 or 2^-126 beside it; an overflow leaves no defined row"
_SATURATED = "where the scale is normal; elsewhere the bound takes the number's own size"
_CODES = "operands are E4M3 codes"
_CARRIED = "where codes stay within 448; elsewhere the bound takes the sizes of the chain"

HELD = {
    "rn-error": _UNDERFLOW,
    "rn-error-subnormal": "it is about the underflow",
    "sum-any-tree": _UNDERFLOW,
    "sum-dominated": _UNDERFLOW,
    "sum-tree-height": _UNDERFLOW,
    "two-roundings": _UNDERFLOW,
    "elem-error": _UNDERFLOW,
    "promotion-step": _UNDERFLOW,
    "matched-bound": "any numbers",
    "ledger-stale": "any numbers",
    "norm-perturbation": "any numbers",
    "relative-composition": "any numbers",
    "e4m3-grid": "any code",
    "e4m3-error": _SATURATED,
    "e4m3-error-tiny": _SATURATED,
    "e4m3-error-of-code": _SATURATED,
    "e4m3-saturation": _SATURATED,
    "e4m3-half-unit": _SATURATED,
    "cast-shrinks": "any number and any scale",
    "scale-denormal": "it says which scale is normal, and that is looked up",
    "carry-exact": "a chain of 16 numbers of at most 448 and carries of 16 is below 2^30",
    "carry-shrinks": "any number",
    "carry-telescopes": "any numbers",
    "carry-unclamped": _CARRIED,
    "cast-row-sum": "any numbers",
    "wgmma-large-exact": _CODES,
    "wgmma-alignment-loss": _CODES,
    "wgmma-final-truncation": "33 terms of codes sum to less than 2^20 (wgmma-no-overflow)",
    "wgmma-natural": _CODES,
    "max-code-256": "used where the exponent's residue is within 2^-5; elsewhere window-code",
    "exp2-chord": "roundings of three arguments of at most 300 are below 2^-10",
    "ex2-argument-fused": "any numbers",
    "ex2-error": "arguments are at most 32 and a half; below -126 a flush counts beside it",
    "reciprocal-error": "l is at least 1/4 and at most n 2^41 (window-argument)",
    "bf16-store": "stores below 2^-126 have bf16-store-tiny, from 2^128 on bf16-overflow",
    "bf16-store-tiny": "it is about the underflow",
}


def test_every_cited_lemma_is_evaluated_or_holds_by_what_it_is_used_on():
    cited = {name for bound in BOUNDS.values() for name in bound.lemmas}
    evaluated = {premise.lemma for premise in PREMISES}
    assert cited == evaluated | set(HELD)
    assert evaluated & set(HELD) == set()
    assert all(HELD.values())


@pytest.mark.parametrize("premise", [*PREMISES, *CLOSED], ids=lambda p: f"{p.lemma}: {p.words}")
def test_a_premise_is_about_a_lemma_and_a_constant(premise):
    proofs = pytest.importorskip("dmverify.proofs", reason="the provers are not installed")
    assert premise.lemma in proofs.known_ids()
    assert premise.limit in CONSTANTS
    assert premise.reason == f"{premise.lemma}: needs that {premise.words}"


def test_a_size_that_is_not_a_number_meets_no_premise():
    premise = Premise("rn-error", "it is small", lambda x: x, "WHOLE")
    assert premise.fails(np.array([0.5, 1.0, np.nan, np.inf])).tolist() == [False, True, True, True]


def large_logits(exponent, seed):
    """One query, two windows with one maximum each, nearly alike, of about 2^exponent in base 2.

    The maxima are 1 times 9/8 c and 9/8 times c in units of their blocks' scales; so they differ by
    how amax / 448 rounds, and each window's reference by how its own maximum minus 8 does. A key of
    the other sign keeps the mean of the keys 0.
    """
    problem = Problem(1, 1, 1, 1, 128, 64, causal=False)
    tensors = {name: np.zeros(s, np.float32) for name, s in problem.shapes().items()}
    q, k, v, do = (tensors[name] for name in ("q", "k", "v", "do"))
    c = np.float32(1 + 8 * np.random.default_rng((exponent, seed)).integers(0, 13) / 128)
    for start, code, amax in ((0, 1.0, 1.125 * c), (64, 1.125, c)):
        k[0, start : start + 2, 0, 0] = code * amax / 448, -code * amax / 448
        k[0, start + 2 : start + 4, 0, 1] = amax, -amax
    k = bf16(k)
    q[..., 0] = 1.0
    v[0, :64], v[0, 64:] = 12.0, -13.0
    do[:] = 1.0
    reach = float(np.abs(k[0, :, 0, 0]).max())
    scale = float(np.float32(2.0**exponent / reach / np.log2(np.e)))
    problem = Problem(1, 1, 1, 1, 128, 64, causal=False, softmax_scale=scale)
    inputs = Inputs(q=q, k=k, v=v, do=do)
    return Case(f"large/2^{exponent}@{seed}", "bundled:delta=consistent", problem, inputs)


def ledger_of(case):
    contract = get_contract(case.contract)
    with np.errstate(all="ignore"):
        made = interpret(contract, case.problem, case.inputs, Bits(), internals=True)
    return ledger(
        contract, case.problem, inputs=case.inputs, internals=made.internals, outputs=made.outputs
    )


LARGE = [(exponent, seed) for exponent in range(24, 32) for seed in range(6)]


@pytest.mark.parametrize(("exponent", "seed"), LARGE)
def test_logits_that_float32_does_not_hold_are_no_rejection(exponent, seed):
    book = ledger_of(large_logits(exponent, seed))
    assert book.ok
    for name in ("prob", "acc", "norm"):
        unbounded = np.isinf(book.bounds[name])
        assert (book.reasons(name) != "").tolist() == unbounded.tolist()
        if exponent > 24:
            assert book.reasons(name)[book.defined].tolist() == [
                next(p.reason for p in PREMISES if p.lemma == "window-argument")
            ] * int(book.defined.sum())
    for name in ("out", "dot", "accdP", "cast"):
        assert np.isfinite(book.bounds[name]).all()  # they need nothing of the exponents


def test_without_their_premises_the_same_rows_would_be_rejected(monkeypatch):
    monkeypatch.setattr(premises, "PREMISES", ())
    assert not all(ledger_of(large_logits(*at)).ok for at in LARGE)


@pytest.mark.parametrize("exponent", [10, 19, 22])
def test_logits_that_float32_holds_keep_finite_bounds(exponent):
    book = ledger_of(large_logits(exponent, 0))
    assert book.ok
    assert all(np.isfinite(book.bounds[name]).all() for name in book.names)


def test_a_finding_says_of_how_many_rows_it_says_nothing():
    case = large_logits(28, 0)
    for name in ("ledger", "row-sum"):
        (found,) = run(
            resolve_kernel("emulator"), [case], checks=[CHECKS[name]], emit=ignore, use_bits=False
        )
        assert found.verdict is Verdict.CONFORMS
        assert found.open == 1
        assert "1 of 1 rows without a bound: window-argument: needs that" in found.reason


def test_three_arguments_of_an_exponential_round_by_less_than_the_chord_reaches():
    """``HELD`` says so of exp2-chord: the smallest P that counts, and 2^53 keys."""
    below = 126 + 24 + 53 + 1
    assert 3 * (below + 1) * U < 2**-10
