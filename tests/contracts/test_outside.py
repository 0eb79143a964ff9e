"""A contract from outside is judged by everywhere that a named one is, and travels as text."""

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from dmverify import verify
from dmverify.cli import cli
from dmverify.cli.attack_search import name_of
from dmverify.conformance import contracts, process
from dmverify.conformance.contracts import resolve_contract
from dmverify.errors import ContractError, UnknownNameError
from dmverify.spec.contracts import ARTICLE, get_contract, read_contract, to_table, to_text
from dmverify.spec.recording import contract_text
from tests.contracts.kernels import MINE, Ignored, Kept

CASE = "gaussian/spread-2,batch=1,heads=2,kv_heads=1,queries=70,keys=90,head_dim=32@0"
EXAMPLE = Path(process.__file__).parent / "example.py"
OUTPUTS = ("o", "lse", "dq", "dk", "dv")
KEPT, IGNORED = "tests.contracts.kernels:Kept", "tests.contracts.kernels:Ignored"


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="dmverify")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(to_text(get_contract(MINE)))
    return file


@pytest.mark.parametrize("contract", [None, MINE, get_contract(MINE)])
def test_verify_takes_a_name_or_a_contract(contract):
    report = verify(Kept(), contract, cases=[CASE], checks=OUTPUTS)
    assert report.ok
    assert report.contract == MINE
    wrong = verify(Ignored(), contract, cases=[CASE], checks=OUTPUTS)
    assert {row.id for row in wrong.checks if row.failed} == set(OUTPUTS)


def test_verify_takes_a_file_and_its_report_has_the_text(path):
    found = call("verify", KEPT, "--in-process", "--contract", path, "--case", CASE, "--json")
    assert found.exit_code == 0, found.stderr
    subject = json.loads(found.stdout)["subjects"][0]
    assert subject["contract"] == MINE
    assert json.loads(found.stdout)["contracts"] == {MINE: contract_text(MINE)}
    assert '"format": 1' in contract_text(MINE)
    options = ("--in-process", "--contract", path, "--case", CASE, "--check", "o")
    wrong = call("verify", IGNORED, *options, "--json")
    assert wrong.exit_code == 1
    repro = json.loads(wrong.stdout)["checks"][0]["repro"]
    assert f"--contract {MINE}" in repro  # which needs no file


def test_three_steps(path, tmp_path):
    listed = tmp_path / "cases"
    assert call("gen", listed, "--contract", path, "--case", CASE).exit_code == 0
    path.unlink()  # from here on nobody has the file
    for kernel, code in ((KEPT, 0), (IGNORED, 1)):
        out = tmp_path / kernel.rpartition(":")[2]
        assert call("run", kernel, out, "--in-process", "--cases", listed).exit_code == 0
        checked = call("check", out, "--json", *(f"--check={name}" for name in OUTPUTS))
        assert checked.exit_code == code, checked.stderr
        assert json.loads(checked.stdout)["contracts"] == {MINE: contract_text(MINE)}
        text = json.loads((out / "manifest.json").read_text())["contracts"][MINE]
        assert json.loads(text)["format"] == 1
        assert json.loads(text)["p_group"] == 16


def test_bounds_and_tomograph(path):
    found = call("bounds", path, "--case", CASE, "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["contract"]["p_group"] == 16
    sizes = ("--length", 64, "--batch", 1, "--heads", 2, "--kv-heads", 2, "--head-dim", 32)
    read = call("tomograph", KEPT, "--in-process", "--contract", path, *sizes, "--json")
    assert json.loads(read.stdout)["contract"] == MINE


def test_replay(path):
    found = call("replay", CASE, "--kernel", KEPT, "--contract", path, "--json")
    assert found.exit_code == 0, found.stdout[-2000:]


def test_expect_and_attack(path):
    shown = call("expect", path, "--shape", "1,1,64,32", "--json")
    assert json.loads(shown.stdout)["contract"]["p_group"] == 16
    few = ("--shape", "1,1,16,32", "--evaluations", 16, "--seeds", 1)
    found = call("attack", KEPT, "--contract", path, "--maximise", "dq", *few, "--json")
    assert found.exit_code == 0, found.stderr
    assert name_of(str(path)) == MINE


VERBS = ["verify", "gen", "run", "bounds", "tomograph", "replay", "expect", "attack"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_is_none_is_wrong_usage_everywhere(verb, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text('format = 1\nbase = "article"\np_group = 17\n')
    words = {
        "verify": (KEPT, "--in-process", "--contract", bad),
        "gen": (tmp_path / "out", "--contract", bad),
        "run": (KEPT, tmp_path / "o", "--in-process", "--case", CASE, "--contract", bad),
        "bounds": (bad,),
        "tomograph": (KEPT, "--in-process", "--contract", bad),
        "replay": (CASE, "--kernel", KEPT, "--contract", bad),
        "expect": (bad,),
        "attack": (KEPT, "--contract", bad),
    }[verb]
    found = call(verb, *words)
    assert found.exit_code == 2
    assert "p_group" in found.stderr
    assert "bad.toml" in found.stderr


def test_a_process_gets_every_field(path, tmp_path):
    """A program in another language reads the numbers instead of a name."""
    text = EXAMPLE.read_text()
    loop = "asked = json.loads(line)"
    assert loop in text
    program, seen = tmp_path / "program.py", tmp_path / "seen"
    keep = f"{loop}\n    open({str(seen)!r}, 'a').write(json.dumps(asked) + chr(10))"
    program.write_text(text.replace(loop, keep).replace('"version": 1', '"version": 2'))
    words = (f"proc:{sys.executable} {program}", "--contract", path, "--case", CASE)
    call("verify", *words, "--check", "o")
    asked = [json.loads(line) for line in seen.read_text().splitlines()]
    questions = [one for one in asked if "problem" in one]
    assert questions
    assert {one["contract"] for one in questions} == {MINE}
    assert all(one["fields"] == to_table(get_contract(MINE)) for one in questions)


def test_a_program_may_promise_a_contract_of_its_own(tmp_path):
    text = EXAMPLE.read_text()
    mine = "bf16-math:delta=consistent"
    assert '"bf16-math"' in text
    program = tmp_path / "mine.py"
    program.write_text(text.replace('"bf16-math"', f'"{mine}"'))
    found = call(
        "verify", f"proc:{sys.executable} {program}", "--case", CASE, "--check", "o", "--json"
    )
    assert json.loads(found.stdout)["contract"] == mine
    assert found.exit_code == 0


def offer(monkeypatch, **values):
    points = [EntryPoint(name, value, contracts.GROUP) for name, value in values.items()]
    monkeypatch.setattr(contracts, "entry_points", lambda group: points)


OFFERED = read_contract(f'format = 1\nbase = "{MINE}"\nsummary = "mine"\n')
TEXT = to_text(OFFERED)
NEITHER = 5


def test_a_package_offers_contracts(monkeypatch):
    here = f"{__name__}:"
    offer(monkeypatch, value=f"{here}OFFERED", text=f"{here}TEXT")
    for name in ("value", "text"):
        assert resolve_contract(name).name == MINE
        assert resolve_contract(f"{name}:delta=stale").delta == "stale"
        assert resolve_contract(f"{name}:delta=stale").schedule.p_group == 16
        assert verify(Kept(), name, cases=[CASE], checks=("o",)).contract == MINE
    listed = json.loads(call("list", "contracts", "--json").stdout)["contracts"]
    assert {"value", "text", "article"} <= {row["name"] for row in listed}
    with pytest.raises(UnknownNameError, match="did you mean value"):
        resolve_contract("valeu")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("article", "OFFERED"),
        ("mine.toml", "OFFERED"),
        ("a/b", "OFFERED"),
        ("mine:delta", "OFFERED"),
        ("mine", "NEITHER"),
        ("mine", "ABSENT"),
    ],
)
def test_offers_that_are_refused(name, value, monkeypatch):
    offer(monkeypatch, **{name: f"{__name__}:{value}"})
    with pytest.raises((ContractError, UnknownNameError)):
        resolve_contract("mine" if name == "mine" else "unheard-of")


def test_check_shows_every_field_and_the_nearest(path):
    found = json.loads(call("contract", "check", path, "--json").stdout)
    assert found["nearest"] == "article"
    assert found["differences"] == {"q_block": "whole", "k_block": 32, "p_group": 16, "tile": 32}
    assert [row["name"] for row in found["fields"]] == [
        key for key in to_table(ARTICLE) if key not in ("format", "base", "summary")
    ]
    shown = call("contract", "check", path).stdout
    assert "p_group" in shown
    assert "which differs in q_block=whole" in shown


def test_check_says_what_has_no_effect():
    rows = json.loads(call("contract", "check", "bf16-math", "--json").stdout)["fields"]
    idle = {row["name"] for row in rows if row["idle"]}
    assert {"operand_rule", "q_block", "saturate", "normaliser"} <= idle


@pytest.mark.parametrize(
    ("kernel", "contract", "code"),
    [
        ("dmverify.conformance.kernels.simulation:Simulation", "article", 0),
        ("dmverify.lab.mutants.numeric:Stale", "article:delta=stale", 0),
        ("dmverify.lab.mutants.numeric:Base2", "article", 1),
        (IGNORED, "article", 0),
    ],
)
def test_guess_finds_the_contract(kernel, contract, code):
    found = call("contract", "guess", kernel, "--in-process", "--json")
    rows = json.loads(found.stdout)["contracts"]
    assert rows[0]["name"] == contract
    assert rows[0]["conforms"] is (code == 0)
    assert rows == sorted(rows, key=lambda row: row["share"])
    assert found.exit_code == code
    assert {row["name"] for row in rows} >= {"bundled", "cudnn-fp8", "article:delta=stale"}
