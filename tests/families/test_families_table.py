"""The table as a whole: every row is complete, every default case is valid and BF16-exact."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from dmverify.conformance.families import (
    FAMILIES,
    FLAGS,
    Variant,
    generate,
    list_cases,
    list_families,
    parse_case_id,
)
from dmverify.errors import ContractError, InputError, UnknownNameError


def test_every_family_says_what_it_stresses_and_hunts():
    for family in list_families():
        assert len(family.targets.split()) > 4
        assert family.variants
    assert len({family.targets for family in list_families()}) == len(FAMILIES)


@pytest.mark.parametrize("section", sorted({f.section for f in list_families()}))
def test_sections_are_modules_of_the_specification(section):
    assert find_spec(f"dmverify.spec.{section}") is not None


def test_every_flag_is_used_and_an_unknown_one_is_refused():
    used = {flag for f in list_families() for v in f.variants for flag in f.flags_of(v)}
    assert used == set(FLAGS) - {"trained"}
    with pytest.raises(ContractError, match="flags are"):
        replace(FAMILIES["gaussian"], variants={"x": Variant(flags=("unheard-of",))})


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_default_case_is_valid_bf16_and_carries_its_id(family):
    for case_id in list_cases(family):
        case = generate(case_id, contract="article")
        assert (case.id, case.contract) == (case_id, "article")
        assert case.targets == FAMILIES[family].targets
        for _, x in case.inputs.items():
            assert x.dtype == np.float32
            bits = np.ascontiguousarray(x).view(np.uint32)
            assert not (bits[~np.isnan(x)] & 0xFFFF).any()
        finite = all(np.isfinite(x).all() for _, x in case.inputs.items())
        variant = parse_case_id(case_id).variant
        assert finite or "nonfinite" in FAMILIES[family].flags_of(variant)


def test_large_variants_are_listed_on_demand_only():
    default, everything = set(list_cases()), set(list_cases(on_demand=True))
    assert {"positive-v/keys-64k@0", "layout/far-rows@0", "long/n1088@0"} <= everything - default
    assert default < everything
    assert FAMILIES.keys() - {f.name for f in list_families(on_demand=False)} == {"long"}


def test_ids_override_sizes_and_have_one_canonical_form():
    case = generate("gaussian/spread-4,keys=70,causal=0,softmax_scale=0.25")
    assert case.id == "gaussian/spread-4,keys=70,causal=0,softmax_scale=0.25@0"
    assert (case.problem.keys, case.problem.causal, case.problem.scale) == (70, False, 0.25)
    assert str(parse_case_id(case.id)) == case.id
    assert generate(case.id).problem == case.problem


@pytest.mark.parametrize(
    "text",
    [
        "gaussian",
        "rows/@0",
        "gaussian/spread-1@-1",
        "gaussian/spread-1@x",
        "gaussian/spread-1,keys@0",
        "gaussian/spread-1,keys=many@0",
        "gaussian/spread-1,causal=2@0",
        "gaussian/spread-1,width=3@0",
        "gaussian/spread-1,keys=3,keys=4@0",
        "gaussian/spread-1,keys=-1@0",
        "gaussian/spread-1,head_dim=33@0",
        "layout/packed,keys=7@0",
        "layout/far-rows,queries=1@0",
        "integers/balanced,causal=1@0",
        "integers/balanced,keys=65@0",
    ],
)
def test_malformed_ids_are_typed_errors(text):
    with pytest.raises(InputError):
        generate(text)


@pytest.mark.parametrize(
    ("text", "offer"),
    [
        ("gausian/spread-1@0", "gaussian"),
        ("gaussian/spread-3@0", "spread-"),
        ("capture/none-such@0", "capture"),
        ("rows/risin@0", "rising"),
    ],
)
def test_unknown_names_offer_close_ones(text, offer):
    with pytest.raises(UnknownNameError, match=offer):
        generate(text)
    with pytest.raises(UnknownNameError):
        list_cases("nothing")


def test_captures_are_cases():
    ids = list_cases("capture")
    assert ids
    case = generate(ids[0])
    assert case.id == ids[0]
    assert case.inputs.q.shape == case.problem.shapes()["q"]
    with pytest.raises(InputError, match="stored, not drawn"):
        generate(ids[0].replace("@0", "@1"))
    with pytest.raises(UnknownNameError, match="of a capture"):
        generate(ids[0].replace("@0", ",keys=4@0"))
