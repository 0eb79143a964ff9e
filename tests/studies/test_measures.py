"""The measures against an oracle by torch and against sums done another way."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dmverify.spec.arithmetic import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem
from dmverify.studies.residuals.measures import measure, row_ratios
from dmverify.studies.toy_heads import toy_heads
from tests.attention.oracle import attention

PROBLEM = Problem(batch=1, heads=2, kv_heads=2, queries=96, keys=96, head_dim=32)


@pytest.fixture(scope="module")
def inputs():
    return toy_heads("gaussian", 2.0, seed=3, problem=PROBLEM)


@pytest.fixture(scope="module")
def run(inputs):
    contract = get_contract("article", delta="stale")
    return interpret(contract, PROBLEM, inputs, Single(), internals=True)


@pytest.fixture(scope="module")
def measures(run, inputs):
    return measure(run, interpret(get_contract("article"), PROBLEM, inputs, Double()))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["o", "dq"])
def test_errors_against_torch(name, run, measures, inputs):
    want = attention(PROBLEM, inputs)[name]
    got = run.outputs.o if name == "o" else run.values[name]  # O as stored, dQ before its store
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert getattr(measures, f"{name}_error") == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize(("name", "field"), [("residual", "ds"), ("residual_cast", "ds_cast")])
def test_residual_in_rationals(name, field, run, measures):
    ratios = []
    for row in getattr(run.internals, field).reshape(-1, PROBLEM.keys):
        exact = [Fraction(x) for x in row]
        size = sum(map(abs, exact))
        ratios.append(float(abs(sum(exact)) / size) if size else 0.0)
    assert getattr(measures, name) == pytest.approx(np.median(ratios), rel=1e-9)


def test_column_sums_are_residuals_times_q(run, measures):
    """sum_j dK_jc = sum_i R_i q_ic: another order of summation, in float64."""
    inside = run.internals
    sums = np.abs(np.einsum("bhi,bhic->bhc", inside.ds.sum(-1), inside.q))
    sizes = np.abs(np.einsum("bhij,bhic->bhjc", inside.ds, inside.q)).sum(2)
    assert measures.colsum == pytest.approx(sums.sum() / sizes.sum(), rel=1e-4)
    assert measures.colsum_median == pytest.approx(np.median(sums / sizes), rel=1e-3)


def test_ratios():
    ds = np.array([[[[1.0, -1.0], [3.0, -1.0], [0.0, 0.0], [np.nan, 1.0]]]])
    rows = np.array([[[True, True, True, False]]])
    assert row_ratios(ds, rows).tolist() == [0.0, 0.5, 0.0]


def test_flushed_and_undefined_rows(run, inputs):
    reference = interpret(get_contract("article"), PROBLEM, inputs, Double())
    cast = run.internals.ds_cast.copy()
    cast[0, 0, 10:20] = 0.0
    cast[0, 1, 50] = np.nan
    spoilt = replace(run, internals=replace(run.internals, ds_cast=cast))
    before, after = measure(run, reference), measure(spoilt, reference)
    rows = 2 * PROBLEM.queries
    assert before.flushed == before.undefined == 0
    assert after.flushed == pytest.approx(10 / (rows - 1), rel=0.02)
    assert after.undefined == pytest.approx(1 / rows)
    assert np.isfinite(after.residual_cast)


def test_internals_are_needed(run, inputs):
    with pytest.raises(ValueError, match="internals"):
        measure(replace(run, internals=None), run)
