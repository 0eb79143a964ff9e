"""Row sums whose largest part is what underflow takes: V is below BF16's normal numbers."""

import numpy as np
import pytest

from dmverify.spec.attention import interpret
from dmverify.spec.bounds import measure, residual
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.ledger import ledger
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import InOrder

PROBLEM = Problem(1, 1, 1, 2, 64, 64, causal=False, softmax_scale=1.0)
LEAST = 2.0**-133  # the smallest BF16
MODES = ("stale", "consistent")


def inputs(do, v):
    """Every other value is 0, all keys have the same P: O is half of v."""
    values = np.zeros((1, 64, 1, 64), np.float32)
    values[:, ::2] = v
    nothing = np.zeros((1, 2, 1, 64), np.float32)
    return Inputs(q=nothing, k=0 * values, v=values, do=np.full_like(nothing, do))


def row_sums(mode, given):
    contract = get_contract("article", delta=mode)
    with np.errstate(all="ignore"):
        run = interpret(contract, PROBLEM, given, InOrder(), internals=True)
    arguments = {"inputs": given, "internals": run.internals, "outputs": run.outputs}
    book = ledger(contract, PROBLEM, **arguments)
    norms = measure(contract, PROBLEM, given)
    forms = [residual(contract, problem=PROBLEM, norms=norms, cast=cast) for cast in (False, True)]
    return book, forms


@pytest.mark.parametrize("power", [0, 60, 126])
@pytest.mark.parametrize("mode", MODES)
def test_the_closed_form_counts_what_underflow_takes(mode, power):
    book, (before, after) = row_sums(mode, inputs(2.0**power, LEAST))
    assert book.ok
    found = np.abs(book.residual).max()
    assert found <= before.value
    assert np.abs(book.residual + book.values["cast"]).max() <= after.value


@pytest.mark.parametrize("mode", MODES)
def test_without_underflow_the_closed_form_is_exceeded(mode):
    book, (before, _) = row_sums(mode, inputs(2.0**60, LEAST))
    part = {t.name: t.value for t in before.terms}
    norms = measure(get_contract("article", delta=mode), PROBLEM, inputs(2.0**60, LEAST))
    relative = 2.0**-8 * norms.do_one * norms.v_max * 1.2  # of out, with what slack it has
    without = before.value - part["underflow"] - (part["out"] - relative)
    assert np.abs(book.residual).max() > 3 * without


def test_it_is_nothing_beside_ordinary_operands():
    form = row_sums("stale", inputs(1.0, 1.0))[1][0]
    lost = next(term.value for term in form.terms if term.name == "underflow")
    assert 0 < lost < 1e-30 * form.value
