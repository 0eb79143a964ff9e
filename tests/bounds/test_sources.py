"""Bound code takes its numbers from the table, its terms cite lemmas, and lemmas are used."""

import ast
from pathlib import Path

import pytest

import dmverify
from dmverify.conformance.families import generate
from dmverify.proofs import CERTIFICATES, all_lemmas
from dmverify.spec.bounds import OUTPUTS, closed_form, measure, residual
from dmverify.spec.constants import CONSTANTS, DEFINITION
from dmverify.spec.contracts import CONTRACTS, DELTAS, DS_CASTS, get_contract
from dmverify.spec.ledger.bounds import BOUNDS

SPEC = Path(dmverify.__file__).parent / "spec"
BOUND_CODE = sorted(
    [
        *(SPEC / "bounds").glob("*.py"),
        *(SPEC / "arithmetic").glob("enclosure*.py"),
        SPEC / "arithmetic" / "interval.py",
        *(SPEC / "enclosure").glob("*.py"),
        SPEC / "attention" / "keys.py",
    ]
)
ALLOWED = {0, 1, 2}


def literals(source):
    """Numbers in code other than 0, 1 and 2, with their lines."""
    return [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and type(node.value) in (int, float)
        and node.value not in ALLOWED
    ]


@pytest.mark.parametrize("path", BOUND_CODE, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_no_number_is_written_out(path):
    assert literals(path.read_text()) == []


def test_the_search_finds_a_number():
    assert literals("x = 3\ny = 2 * 17.0 + 1") == [(1, 3), (2, 17.0)]


def cited_by_closed_forms():
    case = generate("gaussian/spread-1,queries=9,keys=9,head_dim=32@0", contract="article")
    found = set()
    for base in CONTRACTS:
        for mode in DELTAS:
            for cast in DS_CASTS:
                changes = {"normaliser": "codes"} if mode == "associated" else {}
                contract = get_contract(base, delta=mode, ds_cast=cast, **changes)
                norms = measure(contract, case.problem, case.inputs)
                forms = [
                    closed_form(o, contract, problem=case.problem, norms=norms, reference=r)
                    for o in OUTPUTS
                    for r in ("operands", "inputs")
                ]
                forms += [
                    residual(contract, problem=case.problem, norms=norms, cast=c)
                    for c in (False, True)
                ]
                found |= {lemma for form in forms for t in form.terms for lemma in t.lemmas}
    return found


def known():
    return {entry.id for entry in (*all_lemmas(), *CERTIFICATES)} | {DEFINITION}


def test_every_lemma_that_a_bound_cites_exists():
    missing = cited_by_closed_forms() - known()
    assert missing == set()
    assert {x for bound in BOUNDS.values() for x in bound.lemmas} - known() == set()


def test_every_lemma_for_a_bound_is_cited():
    """What says that it serves a bound is cited by a bound or states a constant of one."""
    cited = cited_by_closed_forms() | {row.source for row in CONSTANTS.values()}
    cited |= {x for bound in BOUNDS.values() for x in bound.lemmas}
    cited |= set(ENCLOSURE)
    serving = {x.id for x in all_lemmas() if any(use.startswith("bound:") for use in x.used_by)}
    assert serving - cited == set()


ENCLOSURE = (
    "cast-set",
    "cast-set-width",
    "e4m3-order",
    "e4m3-monotone",
    "e4m3-ties",
    "wgmma-window",
    "wgmma-partials",
    "exact-dot-float64",
    "carry-exact",
)
"""What the enclosure's docstrings rest on."""
