"""Forged lists, expectations, journals and ids: the run that they are for, or a typed refusal.

Each is read in a child of its own with a limit of memory and processor time (``limited``).
"""

import json
import os
import sqlite3
from pathlib import Path

import pytest

from dmverify.conformance.journal import JOURNAL, TABLES
from dmverify.conformance.load import load
from tests.conformance.forgeries import base, sparse, zero
from tests.conformance.limited import Limited

RIGHT = json.dumps({"case": "lengths/n2@0", "contract": "article"})
KINDS = {"FIFO": os.mkfifo, "zero": zero, "sparse": sparse, "folder": Path.mkdir}
KINDS |= {"loop": lambda path: path.symlink_to(path), "gone": lambda path: None}


@pytest.fixture(scope="module")
def limited():
    found = Limited()
    yield found
    found.close()


def line(**changes):
    return json.dumps(json.loads(RIGHT) | changes)


# What follows a right line of a list, and words of the refusal.
LINES = {
    "no JSON": "conforms",
    "a number": "7",
    "a list": f"[{RIGHT}]",
    "nothing": "",
    "half a line": RIGHT[:20],
    "brackets": "[" * 10**6,
    "tables": '{"a":' * 10**6,
    "an id of a number": line(case=7),
    "an id of null": line(case=None),
    "an id of a table": line(case={}),
    "a contract of a list": line(contract=["article"]),
    "a contract of a number": line(contract=1),
    "a contract that is not": line(contract="nothing"),
    "a modifier that is not": line(contract="article:colour=red"),
    "a third field": line(expected="conforms"),
    "no contract": json.dumps({"case": "lengths/n2@0"}),
    "an id that is not": line(case="lengths/nothing@0"),
    "a family that is not": line(case="nothing/n2@0"),
    "a long id": line(case="lengths/n2@" + "9" * 5000),
    "2000000000 keys": line(case="lengths/n2,keys=2000000000@0"),
    "a number of a million digits": '{"case": ' + "9" * 10**6 + ', "contract": "article"}',
    "NUL": "\0",
    "NaN": '{"case": NaN, "contract": "article"}',
    "controls": line(case="\x1b[2Jbundled: conforms"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_forged_line_refuses_the_list_before_anything_is_asked(name, tmp_path, limited):
    path = tmp_path / "cases"
    path.write_text(f"{RIGHT}\n{LINES[name]}\n{RIGHT}\n")
    found = limited.call("run", "simulation", tmp_path / "r", "--cases", path)
    assert (found["code"], found["out"]) == (2, ""), found
    assert found["err"].startswith(f"[DMV-INPUT] got line 2 of {path}")
    assert found["err"].count("\n") == 1
    assert "\x1b" not in found["err"]
    assert not (tmp_path / "r").exists()
    path.write_text(f"{RIGHT}\n")  # the corrected list
    assert limited.call("run", "simulation", tmp_path / "r", "--cases", path)["code"] == 0


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("words", [("run", "simulation"), ("check",)])
def test_a_list_is_a_plain_file(name, words, tmp_path, limited):
    path = tmp_path / "cases"
    KINDS[name](path)
    folder = base(tmp_path / "r") if words[0] == "check" else tmp_path / "r"
    found = limited.call(*words, folder, "--cases", path)
    assert (found["code"], found["out"]) == (2, ""), found
    assert found["err"].startswith("[DMV-INPUT]")


def test_other_bytes_are_no_list(tmp_path, limited):
    path = tmp_path / "cases"
    path.write_bytes(RIGHT.encode() + b"\n\xff\xfe\n")
    found = limited.call("run", "simulation", tmp_path / "r", "--cases", path)
    assert (found["code"], "text file" in found["err"]) == (2, True)


def test_an_empty_list_ran_nothing(tmp_path, limited):
    (tmp_path / "cases").write_text("")
    found = limited.call("run", "simulation", tmp_path / "r", "--cases", tmp_path / "cases")
    assert (found["code"], found["err"].split()[0]) == (5, "[DMV-EMPTY]")


def test_what_a_list_has_and_the_recording_has_not_is_seen(tmp_path, limited):
    path = base(tmp_path / "r")
    rows = [line(case=f"lengths/n2@{seed}") for seed in range(15)]
    (tmp_path / "cases").write_text("\n".join([*rows, line(case="lengths/n1@0")]))
    words = ("check", path, "--check", "o", "--cases", tmp_path / "cases")
    found = limited.call(*words)
    assert found["code"] == 1  # it has a wrong answer too
    assert "served 2 of 17 cases" in found["out"]
    assert "the list has it, and the recording was not asked it" in found["out"]


EXPECTATIONS = {
    "brackets": ("x.toml", b"a = " + b"[" * 10**5),
    "tables": ("x.jsonl", b'{"a":' * 10**6),
    "other bytes": ("x.toml", b"\xff\xfe"),
    "a key of many parts": ("x.toml", b"a" + b".a" * 50_000 + b" = 1"),
    "parts within brackets": ("x.toml", b"a = [{a" + b".a" * 50_000 + b" = 1}]"),
    "a long table": ("x.toml", b"[[expect]]\n" * 100_000),
    "a verdict of a list": ("x.jsonl", b'{"verdict": ["error"], "reason": "r"}'),
    "a verdict of a table": ("x.toml", b'[[expect]]\nverdict = {}\nreason = "r"'),
    "a reason of a number": ("x.jsonl", b'{"verdict": "error", "reason": 7}'),
    "no table": ("x.toml", b"expect = 7"),
    "a list of numbers": ("x.jsonl", b"7\n8"),
    "a field more": ("x.jsonl", b'{"verdict": "error", "reason": "r", "ok": true}'),
    "a long number": ("x.jsonl", b"9" * 10**6),
}


@pytest.mark.parametrize("name", [*EXPECTATIONS, *KINDS])
def test_forged_expectations_are_refused(name, tmp_path, limited):
    file, content = EXPECTATIONS.get(name, ("x.toml", None))
    path = tmp_path / file
    KINDS[name](path) if content is None else path.write_bytes(content)
    found = limited.call("check", base(tmp_path / "r"), "--expect", path)
    assert (found["code"], found["out"]) == (2, ""), found
    assert found["err"].startswith("[DMV-INPUT]")


def journal(*statements):
    def make(path):
        with sqlite3.connect(path / JOURNAL) as opened:
            for statement in statements:
                opened.execute(statement)
        opened.close()

    return make


def content(data):
    return lambda path: (path / JOURNAL).write_bytes(data)


def kind(make):
    return lambda path: make(path / JOURNAL)


def beside(make):
    """SQLite would read what lies there before anything else."""

    def forge(path):
        content(b"")(path)
        make(path / f"{JOURNAL}-journal")

    return forge


ENDLESS = (
    "CREATE VIEW run AS WITH RECURSIVE n(producer) AS "
    "(SELECT 1 UNION ALL SELECT producer + 1 FROM n) SELECT producer FROM n"
)
FAKE = "INSERT INTO done VALUES ('lengths/n2@0', 'article', '{}', '', {})"
JOURNALS = {
    "FIFO": kind(os.mkfifo),
    "zero": kind(zero),
    "sparse": kind(sparse),
    "folder": kind(Path.mkdir),
    "loop": kind(lambda path: path.symlink_to(path)),
    "FIFO beside": beside(os.mkfifo),
    "zero beside": beside(zero),
    "sparse beside": beside(sparse),
    "text": content(b'{"producer": {}}\n{"key": ["lengths/n2@0", "article"]}\n'),
    "NUL": content(bytes(5000)),
    "a head only": content(b"SQLite format 3\0" + bytes(84)),
    "other tables": journal("CREATE TABLE x (y)"),
    "a table more": journal(*TABLES, "CREATE TABLE x (y)"),
    "a trigger": journal(
        *TABLES, "CREATE TRIGGER t AFTER INSERT ON done BEGIN DELETE FROM done; END"
    ),
    "an endless view": journal(ENDLESS, TABLES[1]),
    "another kernel": journal(*TABLES, "INSERT INTO run VALUES ('{}')"),
    "no kernel": journal(*TABLES),
    "two kernels": journal(
        *TABLES, "INSERT INTO run VALUES ('{}')", "INSERT INTO run VALUES ('{}')"
    ),
    "a kernel of bytes": journal(*TABLES, "INSERT INTO run VALUES (x'ff')"),
}


@pytest.mark.parametrize("name", JOURNALS)
def test_a_forged_journal_is_refused(name, tmp_path, limited):
    out = tmp_path / "r"
    out.mkdir()
    JOURNALS[name](out)
    found = limited.call("run", "simulation", out, "--case", "lengths/n2@0")
    assert (found["code"], found["out"]) == (2, ""), found
    assert found["err"].startswith("[DMV-INPUT]")


ROWS = {
    "a verdict": "10, 'x', NULL, 'conforms', ''",
    "a size of a text": "'x', 'x', NULL, NULL, NULL",
    "a reason of bytes": "NULL, NULL, NULL, 'error', x'ff'",
    "a hash of nothing": "10, NULL, NULL, NULL, NULL",
    "nothing": "NULL, NULL, NULL, NULL, NULL",
    "a size below zero": f"-1, '{'0' * 64}', NULL, NULL, NULL",
    "an answer that is not there": f"10, '{'0' * 64}', NULL, NULL, NULL",
    "hashes where numbers are kept": f'NULL, NULL, \'{{"o": "{"0" * 32}"}}\', NULL, NULL',
}


@pytest.mark.parametrize("name", ROWS)
def test_a_forged_row_is_asked_again(name, tmp_path, limited):
    case = "lengths/n2@0"
    whole = tmp_path / "whole"
    words = ("--case", case, "--contract", "article")
    assert limited.call("run", "simulation", whole, *words)["code"] == 0
    asked = load(whole)
    from dmverify.conformance.journal import _said

    out = tmp_path / "r"
    out.mkdir()
    with sqlite3.connect(out / JOURNAL) as opened:
        for table in TABLES:
            opened.execute(table)
        opened.execute("INSERT INTO run VALUES (?)", (_said(asked.producer),))
        row = (case, "article", asked.asked[0].inputs, asked.contracts["article"])
        opened.execute(f"INSERT INTO done VALUES (?, ?, ?, ?, {ROWS[name]})", row)
    opened.close()
    assert limited.call("run", "simulation", out, *words)["code"] == 0
    assert contents(out) == contents(whole)


def contents(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("found", ["nothing", "an empty journal"])
def test_a_run_that_was_killed_before_its_first_row_goes_on(found, tmp_path, limited):
    out = tmp_path / "r"
    out.mkdir()
    if found != "nothing":
        (out / JOURNAL).write_bytes(b"")
    assert limited.call("run", "simulation", out, "--case", "lengths/n2@0")["code"] == 0


HUGE = "lengths/n2,keys=2000000000@0"


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "simulation", "--case", HUGE),
        ("replay", HUGE),
        ("bounds", "article", "--case", HUGE),
        ("gen", "{}/cases", "--case", HUGE),
        ("run", "simulation", "{}/r", "--case", HUGE),
        ("verify", "simulation", "--case", "lengths/n2,queries=2000000000,causal=0@0"),
        ("verify", "simulation", "--case", "constant-v/third,batch=2000000000@0"),
        ("verify", "simulation", "--case", f"lengths/n2,keys={10**150}@0"),
    ],
)
def test_what_does_not_fit_is_refused_up_front(words, tmp_path, limited):
    found = limited.call(*(word.format(tmp_path) for word in words))
    assert (found["code"], found["out"]) == (2, ""), found
    assert "fits the memory of this process" in found["err"]


def test_a_name_of_other_bytes_does_not_lose_the_verdict(tmp_path, limited):
    name = os.fsdecode(b"r\xff\x1b[2J\n")
    path = base(tmp_path / name)
    found = limited.call("check", path, "--check", "o", "--json")
    assert found["code"] == 1, found
    assert json.loads(found["out"])["verdict"] == "fails"
    assert "\\u001b" not in found["out"]
