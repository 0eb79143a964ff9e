"""Bound code takes its numbers from the table, bounds cite lemmas, and every lemma is used."""

import ast
from dataclasses import replace
from functools import cache
from importlib import import_module

import pytest

from dmverify.conformance.families import generate
from dmverify.proofs import CERTIFICATES, all_lemmas
from dmverify.spec.bounds import OUTPUTS, Term, closed_form, measure, residual
from dmverify.spec.constants import CONSTANTS, DEFINITION
from dmverify.spec.contracts import DELTAS, DS_CASTS, get_contract
from dmverify.spec.ledger.bounds import BOUNDS
from tests.proofs.citing import ROOT, citations, literals, module_of, package_sources

BOUND_CODE = sorted(
    [
        *(
            path
            for path in (ROOT / "spec" / "bounds").glob("*.py")
            if path.name != "expected.py"  # typical errors: estimates, and no bounds
        ),
        *(ROOT / "spec" / "ledger" / "bounds").glob("*.py"),
        *(ROOT / "spec" / "arithmetic").glob("enclosure*.py"),
        ROOT / "spec" / "arithmetic" / "interval.py",
        *(ROOT / "spec" / "enclosure").glob("*.py"),
        ROOT / "spec" / "attention" / "keys.py",
        ROOT / "spec" / "attention" / "unspecified_order.py",
        ROOT / "conformance" / "bounds.py",
    ]
)
ENTRIES = {entry.id: entry for entry in (*all_lemmas(), *CERTIFICATES)}
ROWS = {row.name: row.source for row in CONSTANTS.values() if row.source in ENTRIES}
TABLE = "spec.constants"
# They compare bounds with theorems or speak of lemmas, and rest on none.
COMPARING = (
    "proofs.tie", "proofs.obligations", "proofs.derivation", "proofs.assumed",
    "proofs.second_means",
    "proofs.positivity",
)  # fmt: skip


@cache
def sources():
    files = package_sources(
        "spec", "conformance/tomography", "conformance/families/tomography", "proofs"
    )
    files += [("conformance.bounds", (ROOT / "conformance" / "bounds.py").read_text())]
    quiet = (TABLE, *COMPARING)
    return [(module, text) for module, text in files if not module.startswith(quiet)]


@cache
def found():
    return citations(sources(), ENTRIES, rows=ROWS)


# Numbers


@pytest.mark.parametrize("path", BOUND_CODE, ids=module_of)
def test_no_number_is_written_out(path):
    assert literals(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "x = 3",
        "y = 2 * 17.0 + 1",
        "z = path(2 + 2)",
        "z = 2 * 2 * size",
        "z = 2 + n / w + 2",
        "z = 2.0**-2 * u",
        "z = 1 << 2",
        "z = 1 / 2",
        "z = -(2 + 1) * u",
    ],
)
def test_a_planted_number_is_found(planted):
    assert literals(planted) != []


def test_what_bounds_may_write():
    assert literals("a = (1 + u) * (1 + 2 * v) - 1\nb = 2 * n * u + 1\nc = x[-1] / 2 + 2**k") == []


def test_every_constant_is_read():
    """A row is read by name, and a name that only passes it on is read elsewhere."""
    strings = {
        node.value
        for module, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(CONSTANTS) - strings == set()
    passing = import_module("dmverify.spec.ledger.bounds.constants")
    names = {name for name in vars(passing) if name.isupper()}
    assert names - imported("dmverify.spec.ledger.bounds.constants", sources()) == set()


def imported(module, texts):
    return {
        alias.name
        for _, text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


# Bounds


@cache
def closed_terms():
    """Terms of the closed forms of every contract, delta, cast, output and reference."""
    case = generate("gaussian/spread-1,queries=9,keys=9,head_dim=32@0", contract="article")
    terms = []
    for base in ("article", "upstream", "bundled"):
        for mode in DELTAS:
            for cast in DS_CASTS:
                changes = {"normaliser": "codes"} if mode == "associated" else {}
                contract = get_contract(base, delta=mode, ds_cast=cast, **changes)
                norms = measure(contract, case.problem, case.inputs)
                for reference in ("operands", "inputs"):
                    for output in OUTPUTS:
                        form = closed_form(
                            output, contract, problem=case.problem, norms=norms, reference=reference
                        )
                        terms += form.terms
                for after in (False, True):
                    terms += residual(contract, problem=case.problem, norms=norms, cast=after).terms
    return terms


ASSUMED = ("function", "log")  # exp and log of contracts in base e are defined by the contract


def uncited(bounds):
    """Bounds that cite nothing, or something that is neither lemma nor certificate."""
    free = {DEFINITION} | set(ENTRIES)
    return [
        bound
        for bound in bounds
        if not bound.lemmas
        or set(bound.lemmas) - (free if bound.name.split(": ")[-1] in ASSUMED else set(ENTRIES))
    ]


def test_every_closed_term_cites_a_lemma():
    assert uncited(closed_terms()) == []


def test_every_bound_of_the_ledger_cites_a_lemma():
    assert {name for name, bound in BOUNDS.items() if not bound.lemmas} == set()
    assert {x for bound in BOUNDS.values() for x in bound.lemmas} - set(ENTRIES) == set()


@pytest.mark.parametrize("lemmas", [(), ("no-such-lemma",), (DEFINITION,)])
def test_a_planted_bound_without_a_lemma_is_found(lemmas):
    planted = Term("planted", 1.0, lemmas)
    assert uncited([*closed_terms()[:3], planted])[-1] is planted
    assert uncited([replace(planted, lemmas=("rn-error",))]) == []


# Lemmas


def unused(entries, cited):
    """Ids whose uses are none, or which a named use does not cite."""
    return {e.id for e in entries if not e.used_by or set(e.used_by) - cited.get(e.id, set())}


def unnamed(entries, cited):
    """Citations from a module that no use of the lemma names."""
    return {
        (e.id, use)
        for e in entries
        for use in cited.get(e.id, ())
        if use.split(":")[0] not in {known.split(":")[0] for known in e.used_by}
        and use != "proofs.certificates:CERTIFICATES"
    }


def test_every_lemma_is_used_where_it_says():
    assert unused(ENTRIES.values(), found()) == set()


def test_every_citation_is_named_by_its_lemma():
    assert unnamed(ENTRIES.values(), found()) == set()


def test_every_use_is_an_object():
    for use in {use for entry in ENTRIES.values() for use in entry.used_by}:
        module, name = use.split(":")
        thing = import_module(f"dmverify.{module}")
        for part in name.split("."):
            thing = getattr(thing, part)


def test_every_citation_in_code_is_of_a_lemma():
    assert cited_by_steps(sources()) - set(ENTRIES) == set()


def cited_by_steps(texts):
    """Ids in the calls of ``rests_on``."""
    return {
        argument.value
        for _, text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "rests_on"
        for argument in node.args
    }


def test_a_lemma_rests_on_lemmas():
    for entry in all_lemmas():
        assert set(entry.rests_on) <= set(ENTRIES) - {entry.id}


STEP = '@rests_on("planted-lemma")\ndef step(x):\n    """Not by another-lemma."""\n    return x'


def test_citations_are_read_from_code():
    ids = ("planted-lemma", "another-lemma", "of-a-row", "of-a-pair")
    rows = {"ROW": "of-a-row", "SECOND": "of-a-pair"}
    pair = '\nA, B = (read(name) for name in ("FIRST", "SECOND"))'
    seen = citations([("m", STEP + '\nX = constant("ROW")' + pair)], ids, rows=rows)
    assert seen == {
        "planted-lemma": {"m:step"},
        "another-lemma": set(),
        "of-a-row": {"m:X"},
        "of-a-pair": {"m:B"},
    }
    itself = '@lemma("planted-lemma", "text", rests_on=("another-lemma",))\ndef _planted(c): ...'
    seen = citations([("p", itself)], ids, rows=rows)
    assert (seen["planted-lemma"], seen["another-lemma"]) == (set(), {"p:_planted"})
    assert cited_by_steps([("m", STEP)]) == {"planted-lemma"}


def test_a_planted_unused_lemma_is_found():
    entry = replace(all_lemmas()[0], id="planted-lemma", used_by=("m:step",))
    assert unused([entry], {"planted-lemma": {"m:step"}}) == set()
    assert unused([entry], {"planted-lemma": set()}) == {"planted-lemma"}
    assert unused([replace(entry, used_by=())], {"planted-lemma": {"m:step"}}) == {"planted-lemma"}
    assert unused([replace(entry, used_by=("m:other",))], {"planted-lemma": {"m:step"}}) != set()
    assert unnamed([entry], {"planted-lemma": {"n:step"}}) == {("planted-lemma", "n:step")}
