"""The corpus that ships is these files; what is not as its index says is refused."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dmverify.attack.limits import get_limits
from dmverify.attack.run import asked_corpus
from dmverify.attack.shipped import INDEX, LARGEST, SHIPPED, read_indexed, schema, write_index
from dmverify.cli import cli
from dmverify.errors import DmverifyError

GOLDEN = {
    "016ea68b37f78855": "779d79d17e234d34",
    "050c5e5bef33ebe1": "c5488bcf85940325",
    "104575cd72e07f80": "1a96f5ef62b44432",
    "18b4f87449d1e780": "202aa760640a1d73",
    "18d2dbf90b3dfaa4": "de8a7e5871acd1dd",
    "45cc7e8289fa8b52": "76d97f04d74201a7",
    "503e482c265257cc": "c132bf86093d6f74",
    "5ac51aab2a024425": "29e06035a443b3aa",
    "5b9a8be03de35fef": "07a6442baa6f2b0d",
    "724b6fb0cfa08652": "7ae28ce812859034",
    "739577ed8a92a869": "9e4376472cdf6f44",
    "7b9bbeb295ae145d": "6e83ecb3abb46a2a",
    "7d7edf4886cdb643": "af484776c1896a25",
    "a03a7c1c51e44bf7": "7be2a7af3b6fe557",
    "a926f39660fc1dde": "df1e3c8976cf12b2",
    "b8407b49b66d77f4": "fddf0ac97f04cd52",
    "c24248fcc9d81bd3": "4a172e8036fe11a5",
    "cc43c53688a44b90": "3b19f36f3779b7b0",
    "d07fb448b50db6a6": "7be2551b4ce56ecb",
    "d0ea623352f8b56f": "e63f5cb1fad1458a",
    "d37f86d10e380b1d": "a3a41cb2e43cfcf5",
    "d5d0398cf325719b": "69fdacbd60abfc62",
    "df1deab82463b930": "e6d434314bb7bac5",
}
"""By the hash of a find's numbers, the SHA-256 of its file."""
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "corpus.json"


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(SHIPPED, folder)
    return folder


def test_the_shipped_files_are_these_in_every_byte():
    found = {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in SHIPPED.glob("*.safetensors")
    }
    assert found == GOLDEN
    assert [entry.found.inputs[:16] for entry in read_indexed(SHIPPED)] == sorted(GOLDEN)


def test_every_find_is_within_the_limits_it_names():
    for entry in read_indexed(SHIPPED):
        if entry.found.limits == "statistical":
            assert get_limits("statistical").hold(entry.problem, entry.stack).all()


def test_the_published_schema_is_that_of_the_records():
    assert json.loads(SCHEMA.read_text()) == schema()


def test_an_index_written_again_is_the_same(copy):
    before = (copy / INDEX).read_bytes()
    assert write_index(copy).read_bytes() == before


def one(folder):
    return min(folder.glob("*.safetensors"))


def flipped(folder):
    path = one(folder)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def cut(folder):
    one(folder).write_bytes(one(folder).read_bytes()[:-7])


def swollen(folder):
    with one(folder).open("ab") as file:
        file.truncate(LARGEST + 1)


def removed(folder):
    one(folder).unlink()


def added(folder):
    shutil.copy(one(folder), folder / "0123456789abcdef.safetensors")


def renamed(folder):
    one(folder).rename(folder / "0123456789abcdef.safetensors")
    text = (folder / INDEX).read_text().replace(min(GOLDEN), "0123456789abcdef", 1)
    (folder / INDEX).write_text(text)


def no_index(folder):
    (folder / INDEX).unlink()


def other_version(folder):
    text = (folder / INDEX).read_text()
    (folder / INDEX).write_text(text.replace('"version": 1', '"version": 2', 1))


def other_value(folder):
    index = json.loads((folder / INDEX).read_text())
    index["files"][0]["found"]["value"] += 1
    (folder / INDEX).write_text(json.dumps(index))


def way_out(folder):
    index = json.loads((folder / INDEX).read_text())
    index["files"][0]["file"] = "../x.safetensors"
    (folder / INDEX).write_text(json.dumps(index))


CHANGES = (
    flipped, cut, swollen, removed, added, renamed, no_index, other_version, other_value, way_out,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_not_as_the_index_says_is_refused(change, copy):
    change(copy)
    with pytest.raises(DmverifyError):
        read_indexed(copy)


def test_a_kernel_is_asked_the_corpus():
    words = ["attack", "simulation", "--contract", "article:delta=stale", "--corpus", "shipped"]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    for row in (row for row in rows if row["found for"] == "article:delta=stale"):
        assert row["here"] == pytest.approx(row["there"], rel=1e-3)
    assert "there" in CliRunner().invoke(cli, words).stdout


def test_a_kernel_that_serves_no_such_input_says_why():
    rows = asked_corpus("bundled", "", read_indexed(SHIPPED)[:1])
    assert rows == [] or (rows[0]["here"] is None and rows[0]["refused"])
