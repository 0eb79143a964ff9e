"""Other kernels are asked what attacks found, beside every family in the same shape."""

import json

import pytest
from click.testing import CliRunner

from dmverify.attack.corpus import Entry, Found, digest, write_entry
from dmverify.attack.shipped import SHIPPED, read_indexed
from dmverify.cli import cli
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.lab.recordings import DATA
from dmverify.lab.third_party.attacked import CONTRACTS, LARGEST, ask, family_ids, summary
from tests.attack.conftest import SMALL, drawn


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    stack = drawn(SMALL, seed=1)
    words = ("simulation", "article", "dq", "inputs", "statistical", 0.1, 0, 9, "0", digest(stack))
    write_entry(folder, Entry(SMALL, stack, Found(*words)))
    return folder


def test_right_kernels_answer_and_absent_ones_say_why(corpus, tmp_path, monkeypatch):
    few = ["gaussian/spread-1,batch=1,heads=1,kv_heads=1,queries=16,keys=16,head_dim=32,causal=0@0"]
    monkeypatch.setattr("dmverify.lab.third_party.attacked.family_ids", lambda problem: iter(few))
    out = tmp_path / "found.json"
    words = ["lab", "attacked", str(corpus), "--kernels", "torch-math,simulation,cudnn-fp8"]
    done = CliRunner().invoke(cli, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    values = {
        (row["kernel"], row["case_id"].partition("/")[0], row["output"], row["against"]): row[
            "value"
        ]
        for row in found["rows"]
    }
    assert len(values) == 2 * 2 * (4 * 2 + 1)
    for kind in ("attack", "gaussian"):
        assert values["torch-math", kind, "dq", "inputs"] < 0.01  # BF16
        assert 0.02 < values["simulation", kind, "dq", "inputs"] < 0.3  # E4M3
        assert 0.005 < values["simulation", kind, "dq", "operands"] < 0.1
    assert {row["kernel"] for row in found["refused"]} == {"cudnn-fp8"}


def test_every_small_variant_is_asked_in_the_shape():
    ids = list(family_ids(SMALL))
    assert len(ids) > 200
    assert all("queries=16,keys=16" in name for name in ids)


RECORDED = json.loads((DATA / "attacked.json").read_text())


def test_an_h200_was_asked_the_shipped_corpus():
    shipped = {f"attack/{entry.found.inputs[:16]}" for entry in read_indexed(SHIPPED)}
    asked = {row["case_id"] for row in RECORDED["rows"]}
    (plain,) = asked - shipped
    assert plain.startswith("gaussian/spread-1,")
    assert {row["contract"] for row in RECORDED["rows"]} == {
        c for cs in CONTRACTS.values() for c in cs
    }
    assert {made["device"] for made in RECORDED["made_by"].values()} == {"NVIDIA H200"}


@pytest.mark.parametrize("contract", CONTRACTS["bundled"])
def test_what_the_bundled_kernel_answered_is_what_its_bits_give(contract):
    """The same errors from the specification on a CPU, so the attacks' figures hold on the card."""
    entries = {f"attack/{entry.found.inputs[:16]}": entry for entry in read_indexed(SHIPPED)}
    recorded = [
        row
        for row in RECORDED["rows"]
        if row["contract"] == contract and row["case_id"].startswith("attack/")
    ]
    assert len(recorded) == 12 * 9
    cases = {row["case_id"]: entries[row["case_id"]] for row in recorded}
    asked = ((name, e.stack.case(e.problem, contract)) for name, e in cases.items())
    found = {
        (row.case_id, row.output, row.against): row.value
        for row in ask(Emulator(), "bundled", contract, asked)
    }
    for row in recorded:
        value = found[row["case_id"], row["output"], row["against"]]
        assert value == pytest.approx(row["value"], rel=1e-9)


def test_a_summary_keeps_the_largest_of_families_and_all_of_attacks():
    words = {"kernel": "k", "contract": "c", "output": "dq", "against": "inputs", "plain": None}
    family = [words | {"case_id": f"rounding/v-{i}@0", "value": float(i)} for i in range(9)]
    lost = words | {"case_id": "rounding/nan@0", "value": None}
    attack = words | {"case_id": "attack/0", "value": 0.5}
    found = summary([*family, lost, attack])
    assert found["rows"] == [attack]
    assert found["families"] == {"c": 10}
    assert found["worst_of_families"] == family[: -LARGEST - 1 : -1]


def test_every_kernel_was_asked_every_family():
    assert RECORDED["families"].keys() == {c for cs in CONTRACTS.values() for c in cs}
    assert min(RECORDED["families"].values()) >= 220
    refused = {(one["kernel"], one["reason"]) for one in RECORDED["refused"]}
    assert refused == {
        (k, "its scale rule needs finite inputs") for k in ("cudnn-fp8", "flash-3-fp8")
    }
