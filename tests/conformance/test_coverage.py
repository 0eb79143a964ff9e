"""What the levels cover, computed from their ids; and that a loss is seen."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from dmverify.conformance.coverage.count import combinations_that_exist, cover, in_words, rows_of
from dmverify.conformance.coverage.factors import FACTORS, VALUES, ask, levels_of, must_name
from dmverify.conformance.coverage.kinds import unmet
from dmverify.conformance.coverage.needs import NEEDS, needs_of
from dmverify.conformance.coverage.rows import frozen_rows
from dmverify.conformance.coverage.summary import SIZES, summarise
from dmverify.conformance.families import FAMILIES, generate, parse_case_id, problem_of
from dmverify.conformance.selection import select_pairs
from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.contracts import every_mode, get_contract

SEVERAL = every_mode("bundled")
AT = {factor.name: place for place, factor in enumerate(FACTORS)}
STRENGTH = {"smoke": 2, "full": 3}
SMALL = 1 << 20  # elements of an input that a test may draw


@pytest.fixture(scope="module", params=list(STRENGTH))
def level(request):
    """A level, and what a kernel of several contracts is asked there."""
    return request.param, select_pairs(request.param, SEVERAL, seed=3)


def test_smoke_meets_every_pair_and_full_every_triple(level):
    name, asked = level
    missing = [in_words(*one) for one in cover(rows_of(asked), STRENGTH[name]).missing()]
    assert not missing


def test_a_kernel_of_one_contract_meets_them_too(level):
    name, asked = level
    rows = rows_of((case_id, "article") for case_id, _ in asked)
    assert [case_id for case_id, _ in select_pairs(name, ["article"], seed=3)] == [
        case_id for case_id, _ in asked
    ]
    assert not list(cover(rows, STRENGTH[name], contract=False).missing())


def test_a_kernel_that_declines_head_dims_loses_only_what_names_them(level):
    name, asked = level
    served = [one for one in asked if problem_of(one[0]).head_dim in (64, 128, 256)]
    missing = list(cover(rows_of(served), STRENGTH[name]).missing())
    declined = {FACTORS[AT["head dim"]].levels.index(dim) for dim in ("32", "96")}
    assert missing
    for which, levels in missing:
        assert levels[which.index(AT["head dim"])] in declined


def _length_levels(queries: int, keys: int) -> tuple[str, ...]:
    """Written without the module under test."""
    gap = queries - keys
    if abs(gap) <= 1:
        relation = "=" if gap == 0 else f"{gap:+d}"
    elif 2 * queries <= keys or gap <= -64:
        relation = "<<"
    else:
        relation = ">>" if gap >= 64 else "?"
    tiles = [(n + 63) // 64 for n in (keys, queries)]
    words = ["5+" if n >= 5 else str(n) for n in tiles]
    rests = [str(n % 64) if n % 64 in (0, 1, 63) else "other" for n in (keys, queries)]
    return relation, words[0], rests[0], words[1], rests[1]


def test_the_pairs_and_triples_that_exist_are_all_that_lengths_allow():
    names = ("queries to keys", "key tiles", "keys mod 64", "query tiles", "queries mod 64")
    cells = {(q, k): _length_levels(q, k) for q, k in product(range(1, 449), repeat=2)}
    both = {names.index("key tiles"), names.index("keys mod 64")}
    for strength in (2, 3):
        existing = combinations_that_exist(strength)
        for chosen in combinations(range(len(names)), strength):
            least = 1 if both <= set(chosen) else 2
            words = {tuple(c[i] for i in chosen) for (_, k), c in cells.items() if k >= least}
            which = tuple(AT[names[i]] for i in chosen)
            known = [FACTORS[f].levels for f in which]
            words = {w for w in words if all(x in y for x, y in zip(w, known, strict=True))}
            mine = {tuple(y[i] for i, y in zip(x, known, strict=True)) for x in existing[which]}
            assert mine == words
        others = [f for f in range(len(FACTORS)) if FACTORS[f].name not in names]
        for which in combinations(others, strength):
            assert len(existing[which]) == np.prod([len(FACTORS[f].levels) for f in which])
    assert len(combinations_that_exist(2)) == 91
    assert sum(map(len, combinations_that_exist(2).values())) == 2044
    assert sum(map(len, combinations_that_exist(3).values())) == 37575


def test_a_lost_row_is_seen(level):
    """Without the cases that meet a combination, or without one that alone meets something."""
    name, asked = level
    strength = STRENGTH[name]
    wanted = {AT["group"]: "5", AT["head dim"]: "128"}
    wanted |= {AT["mask"]: "none"} if strength == 3 else {}
    which = tuple(sorted(wanted))
    lost = tuple(FACTORS[f].levels.index(wanted[f]) for f in which)
    kept = [x for x in asked if tuple(levels_of(ask(*x))[f] for f in which) != lost]
    assert len(kept) < len(asked)
    assert (which, lost) in set(cover(rows_of(kept), strength).missing())
    rows = rows_of(asked)
    missing = list(cover(rows[: len(rows) // 2] + rows[len(rows) // 2 + 40 :], strength).missing())
    assert missing


def test_a_case_counts_only_where_a_fault_would_show():
    def must(case_id):
        found = must_name(ask(case_id, "bundled"))
        return None if found is None else {FACTORS[f].name for f in found}

    assert must("gaussian/spread-1@0") == set()
    assert must("gaussian/spread-1,head_dim=96@0") == {"head dim"}
    assert must("gaussian/spread-1,softmax_scale=0@0") == {"scale"}
    assert must("gaussian/spread-1,keys=1@0") == {"key tiles", "keys mod 64"}
    assert must("gaussian/spread-1,keys=65@0") == set()
    assert must("special/q-nan,head_dim=32@0") == {"values", "head dim"}
    assert must("zero-blocks/everything@0") is None
    lonely = rows_of([("gaussian/spread-1,head_dim=96@0", "bundled")])
    met = cover(lonely, 2).met
    assert met[AT["batch"], AT["head dim"]]
    assert not met[AT["batch"], AT["mask"]]


def test_levels_of_corners():
    def words(case_id):
        levels = levels_of(ask(case_id, "bundled:delta=stale"))
        return {f.name: f.levels[i] for f, i in zip(FACTORS, levels, strict=True) if i >= 0}

    corner = words("lengths/n1,batch=7,heads=12,kv_heads=4,queries=128,keys=127,head_dim=160@0")
    assert corner["batch"] == "3+"
    assert corner["queries to keys"] == "+1"
    assert (corner["keys mod 64"], corner["queries mod 64"]) == ("63", "0")
    assert corner["delta"] == "stale"
    assert not {"key heads", "head dim"} & corner.keys()
    assert words("gaussian/spread-1,softmax_scale=0.125@0")["scale"] == "default"
    assert words("gaussian/spread-1,softmax_scale=0.125,head_dim=128@0")["scale"] == "own"
    assert words("gaussian/spread-1,keys=200,head_dim=64@0").get("key tiles") is None
    assert words("gaussian/spread-1,queries=100,keys=120@0").get("queries to keys") is None
    assert words("lengths/no-keys@0") == {}


def test_ids_are_canonical_unique_and_of_different_content(level):
    _, asked = level
    ids = [case_id for case_id, _ in asked]
    assert all(str(parse_case_id(text)) == text for text in ids)
    assert len(set(ids)) == len(ids)
    parsed = [(parse_case_id(text), problem_of(text)) for text in ids]
    contents = [(p.family, p.variant, problem, p.seed) for p, problem in parsed]
    assert len(set(contents)) == len(contents)


def test_every_id_generates(level):
    name, asked = level
    chosen = asked if name == "smoke" else asked[::9]
    for case_id, contract in chosen:
        elements = max(np.prod(shape) for shape in problem_of(case_id).shapes().values())
        if elements <= SMALL and "far-rows" not in case_id:
            assert generate(case_id, contract=contract).id == case_id


def test_rows_keep_what_their_variant_needs():
    for name, rows in frozen_rows().items():
        family, _, variant = name.partition("/")
        needs = needs_of(FAMILIES[family], variant)
        if needs is None:  # it keeps its shape
            fields = {frozenset(parse_case_id(row.case_id(0)).fields) for row in rows}
            assert fields in ({frozenset()}, {frozenset({"head_dim"})}), name
            continue
        for row in rows:
            problem = problem_of(row.case_id(0))
            assert -(-problem.keys // 64) >= needs.key_tiles, row
            assert -(-problem.queries // 64) >= needs.query_tiles, row
            assert problem.batch >= needs.batch, row
            assert problem.kv_heads >= needs.key_heads, row
            assert problem.batch * problem.kv_heads >= needs.parts, row
            assert ("causal" if problem.causal else "none") in needs.masks, row
            assert not needs.square or problem.queries == problem.keys, row


def test_smoke_has_every_kind_of_value_under_the_levels_that_matter():
    asked = [parse_case_id(text) for text, _ in select_pairs("smoke", ("article",), seed=0)]
    cases = [(f"{p.family}/{p.variant}", problem_of(str(p))) for p in asked]
    assert [*unmet(cases)] == []
    without = [(name, p) for name, p in cases if "inf" not in name or p.head_dim != 256]
    assert [*unmet(without)] == [("infinity", "head dim", 256)]


def test_needs_and_classes_name_what_there_is():
    for name in NEEDS:
        family, slash, variant = name.partition("/")
        assert not slash or variant in FAMILIES[family].variants, name
    classed = [family for families in VALUES.values() for family in families]
    assert len(classed) == len(set(classed))
    assert set(classed) <= FAMILIES.keys()


def test_every_family_is_asked_under_every_mode_and_cast_at_full():
    met: dict[str, set[str]] = {}
    for case_id, contract in select_pairs("full", SEVERAL, seed=0):
        met.setdefault(parse_case_id(case_id).family, set()).add(contract)
    assert met.keys() == {*FAMILIES, "capture"}
    assert {family: len(found) for family, found in met.items() if len(found) < 12} == {}


def test_a_kernel_of_few_contracts_is_asked_under_each():
    few = ("article", "article:delta=stale", "upstream:delta=shifted")
    asked = select_pairs("smoke", few, seed=0)
    assert {contract for _, contract in asked} == set(few)
    rows = {r.case_id(0): r for rows in frozen_rows().values() for r in rows}
    for case_id, contract in asked:
        row = rows.get(case_id)
        if row is not None and (row.delta, row.cast) == ("stale", "nearest"):
            assert get_contract(contract).delta == "stale"


def test_the_order_in_which_a_kernel_names_its_contracts_changes_nothing(level):
    name, asked = level
    for names in (SEVERAL[::-1], ("bundled", *SEVERAL)):
        assert select_pairs(name, names, seed=3) == asked


def test_no_contract_or_a_wrong_one_is_an_error():
    with pytest.raises(InputError, match="judged by a contract"):
        select_pairs("smoke", (), seed=0)
    with pytest.raises(UnknownNameError):
        select_pairs("smoke", ("bundle",), seed=0)


def test_full_begins_with_smoke_and_ends_with_the_large_variants():
    smoke, full = (select_pairs(name, SEVERAL, seed=5) for name in ("smoke", "full"))
    assert full[: len(smoke)] == smoke
    assert "far-rows" in full[-1][0] or "on-demand" in FAMILIES[
        parse_case_id(full[-1][0]).family
    ].flags_of(parse_case_id(full[-1][0]).variant)


def test_sizes_that_full_reaches():
    summary = summarise("full", select_pairs("full", SEVERAL, seed=0))
    largest = {one.name: one.size for one in summary.largest}
    assert largest.keys() == SIZES.keys()
    assert largest["keys"] >= 2**17
    assert largest["queries"] >= 2**17
    assert largest["batch"] > 65_535
    assert largest["query heads"] > 65_535
    assert largest["batch x query heads"] >= 2**17
    assert largest["batch x key heads x key tiles"] > 2 * 132
    assert largest["keys for 1 to 8 queries"] >= 2**17


def test_sizes_that_smoke_reaches():
    summary = summarise("smoke", select_pairs("smoke", SEVERAL, seed=0))
    largest = {one.name: one.size for one in summary.largest}
    assert largest["batch x key heads x key tiles"] > 2 * 132
    assert largest["batch x query heads x query tiles"] > 132
    assert largest["keys for 1 to 8 queries"] >= 1024
