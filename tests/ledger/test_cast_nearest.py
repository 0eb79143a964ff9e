"""The nearest cast's bound: never above the sizes, a seventeenth of them where codes are normal."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.families import generate, list_cases, list_families
from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.ledger import ledger
from dmverify.spec.problem import Problem

NORMAL = 2.0**-6
BASES = {"article": Single(), "bundled": Bits()}
SMALL = 200  # tokens of a case


def run(contract, problem, inputs):
    with np.errstate(all="ignore"):
        return interpret(contract, problem, inputs, BASES[contract.base], internals=True)


def ledger_of(contract, problem, inputs, made, internals=None):
    with np.errstate(all="ignore"):
        return ledger(
            contract,
            problem,
            inputs=inputs,
            internals=internals or made.internals,
            outputs=made.outputs,
        )


def aligned():
    """Two queries. dS of the first is 17 and -19 in units of a code's last bit: ties that go down.

    Keys 0 to 18 have dP = 17, the next 17 keys dP = -19, so delta is 0; the second query has the
    tile's amax, 448 of these units. q = 0 makes every P 1 / 64. 17 rounds to 16 and 19 to 20.
    """
    problem = Problem(1, 1, 1, 2, 64, 32, causal=False)
    tensors = {name: np.zeros(s, np.float32) for name, s in problem.shapes().items()}
    q, k, v, do = (tensors[name] for name in ("q", "k", "v", "do"))
    v[0, :19, 0, :2] = (16, 1)
    v[0, 19:36, 0, :2] = (-18, -1)
    v[0, 62, 0, 4], v[0, 63, 0, 4] = 448, -448
    do[0, 0, 0, :2], do[0, 1, 0, 4] = 1, 1
    do[0, 0, 0, 5] = 1.75  # makes dO's scale a power of two, and meets zeros of V
    return problem, Inputs(q=q, k=k, v=v, do=do)


@pytest.mark.parametrize("base", BASES)
def test_an_aligned_row_attains_nine_tenths(base):
    problem, inputs = aligned()
    contract = get_contract(base)
    made = run(contract, problem, inputs)
    book = ledger_of(contract, problem, inputs, made)
    values, bounds = np.abs(book.values["cast"]), book.bounds["cast"]
    assert book.ok
    assert values[0] / bounds[0] > 0.9
    assert bounds[0] / book.size[0] <= 0.06


def families():
    return [family.name for family in list_families(on_demand=False)]


def cases(family, base):
    """Of the family's small cases the first, the last and the middle one."""
    made = [generate(text, contract=base) for text in list_cases(family, seed=3)]
    small = [c for c in made if max(c.problem.queries, c.problem.keys) <= SMALL]
    return [small[i] for i in sorted({0, len(small) // 2, len(small) - 1})] if small else []


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("family", families())
def test_no_bound_is_above_the_sizes_and_a_threefold_ds_is_rejected(family, base):
    contract = get_contract(base)
    for case in cases(family, base):
        made = run(contract, case.problem, case.inputs)
        book = ledger_of(contract, case.problem, case.inputs, made)
        live = book.defined & (book.size > 0)
        assert (book.bounds["cast"] <= book.size * (1 + 2.0**-50))[live].all()
        normal = live & only_normal_codes(made.internals, contract) & scale_fits(made.internals)
        assert (book.bounds["cast"] <= 0.06 * book.size)[normal].all()
        ds = made.internals.ds
        wrong = ds + 2 * np.abs(ds)
        planted = replace(made.internals, ds_cast=wrong)
        found = ledger_of(contract, case.problem, case.inputs, made, planted)
        assert (found.margin("cast") > 1)[live].all()


def scale_fits(internals):
    """Whether no scale of dS by powers of two can have stopped at 2^120, by the largest norms.

    Beyond it a code may saturate, and the term is bounded by sum |dS| alone.
    """
    norms = [np.nanmax(np.linalg.norm(x, axis=-1)) for x in (internals.do, internals.v)]
    return norms[0] * norms[1] * 4 <= 2.0**120  # |delta| and |shift| are below the product as well


def only_normal_codes(internals, contract):
    """Rows whose every nonzero dS is at least 2^-6 of the tile's scale, by the largest of the tile.

    The tile's scale is at least its largest |dS^| over 448.
    """
    ds, after = np.abs(internals.ds), np.abs(internals.ds_cast)
    rows = []
    for (b, h), _ in np.ndenumerate(ds[:, :, 0, 0]):
        for i in range(ds.shape[2]):
            tile = slice(i // 64 * 64, i // 64 * 64 + 64)
            fine = True
            for j in range(0, ds.shape[3], 64):
                scale = _scale(after[b, h, tile, j : j + 64], ds[b, h, tile, j : j + 64], contract)
                part = ds[b, h, i, j : j + 64]
                fine &= bool((part[part > 0] >= NORMAL * scale).all())
            rows.append(fine)
    return np.array(rows)


def _scale(after, ds, contract):
    """Upper bound of the scale that the tile's codes were made with."""
    if contract.schedule.kind == "rows":
        return np.nanmax(ds, initial=0.0) / 448 * (1 + 2.0**-20)
    least = after[after > 0]
    return np.inf if not least.size else least.min() / 2.0**-9
