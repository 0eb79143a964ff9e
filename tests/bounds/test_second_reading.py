"""An input that was outside a closed form: what a hostile reading found.

Its error is the largest that the term allows, so the same form with the constant as it was is
passed.
"""

import numpy as np
import pytest

from dmverify.spec.arithmetic import Bits, Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.bounds import closed_form, measure
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem


def kernel(contract, problem, inputs):
    """What a conforming kernel returns."""
    arithmetic = Bits() if contract.bit_exact else Single()
    with np.errstate(all="ignore"):
        return interpret(contract, problem, inputs, arithmetic)


def halfway(problem):
    """Rows of 272, halfway between codes 256 and 288, beside rows whose largest is 448."""
    x = np.zeros(problem.shapes()["q"])
    x[:, 1::2], x[:, ::2, :, 0] = 272.0, 448.0
    turned = x.copy()
    turned[:, 2::4] *= -1  # the keys' mean is 0
    turned[:, 3::4] *= -1
    return x, turned


@pytest.mark.parametrize("base", ["article", "bundled"])
def test_logits_of_the_inputs_are_a_16th_of_their_codes_away(base):
    contract, problem = get_contract(base), Problem(1, 1, 1, 64, 64, 32, causal=False)
    q, k = (np.asarray(x / 64, np.float32) for x in halfway(problem))
    v = np.ones_like(q)
    inputs = Inputs(q=q, k=k, v=v, do=v)
    exact = Double()
    exact.casts = frozenset()
    found = kernel(contract, problem, inputs).outputs.lse
    error = np.abs(found - interpret(contract, problem, inputs, exact).values["lse"]).max()
    norms = measure(contract, problem, inputs)
    form = closed_form("lse", contract, problem=problem, norms=norms, reference="inputs")
    assert error <= form.value
    assert error > 0.96 * form.value
    q_k = next(term.value for term in form.terms if term.name == "operands q, k")
    assert error > form.value - q_k * (1 - 16 / 17)  # a 17th, as the inputs would have it
