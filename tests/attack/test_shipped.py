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
    "18b4f87449d1e780": "8973b6223d36ae80",
    "18d2dbf90b3dfaa4": "690a0adaa3c7fef4",
    "45cc7e8289fa8b52": "e44a71e9b87ed7aa",
    "503e482c265257cc": "b3e645e2d3d1a56f",
    "5ac51aab2a024425": "64c908f15a480809",
    "739577ed8a92a869": "b3b89a9b5fa65663",
    "7b9bbeb295ae145d": "2264d4ddece857c8",
    "7d7edf4886cdb643": "3f9fa8e1fe6d75cc",
    "d07fb448b50db6a6": "51575c986d21bcba",
    "d0ea623352f8b56f": "3d337c3dc72862f3",
    "d37f86d10e380b1d": "a3a41cb2e43cfcf5",
    "df1deab82463b930": "f581bf6d589e1528",
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
