"""Finds on disk: the same numbers, for any kernel; what is not what it says is refused."""

import json

import pytest
import safetensors.torch
from click.testing import CliRunner

from dmverify.attack.corpus import Entry, Found, digest, read_corpus, read_entry, write_entry
from dmverify.cli import cli
from dmverify.errors import DmverifyError, RecordingError
from tests.attack.conftest import SMALL, drawn

GOLDEN = "e5d4359491608197"  # of the numbers of `entry`


@pytest.fixture
def entry():
    stack = drawn(SMALL, seed=1)
    found = Found(
        "simulation", "article", "dq", "inputs", "statistical", 0.1, 0, 9, "0", digest(stack)
    )
    return Entry(SMALL, stack, found)


def test_a_find_comes_back(entry, tmp_path):
    path = write_entry(tmp_path / "worst.safetensors", entry)
    again = read_entry(path)
    assert again.found == entry.found
    assert again.problem.causal == SMALL.causal
    assert again.problem.scale == SMALL.scale
    assert digest(again.stack) == digest(entry.stack)


def test_the_hash_of_these_numbers_stays(entry, tmp_path):
    assert write_entry(tmp_path, entry).name == f"{GOLDEN}.safetensors"


def test_the_same_numbers_are_one_file_of_a_corpus(entry, tmp_path):
    assert write_entry(tmp_path, entry) == write_entry(tmp_path, entry)
    assert len(read_corpus(tmp_path)) == 1
    assert len(read_corpus(next(tmp_path.iterdir()))) == 1


def changed(path, metadata=None, tensors=None):
    with safetensors.safe_open(path, framework="pt") as file:
        about = file.metadata() | (metadata or {})
    found = safetensors.torch.load_file(path) | (tensors or {})
    safetensors.torch.save_file(found, path, about)


def test_numbers_that_were_changed_are_noticed(entry, tmp_path):
    path = write_entry(tmp_path / "worst.safetensors", entry)
    changed(path, tensors={"q": drawn(SMALL, seed=2).q.bfloat16()})
    with pytest.raises(RecordingError, match="it says that they are"):
        read_entry(path)


@pytest.mark.parametrize(
    "metadata", [{"format": "other"}, {"version": "2"}, {"found": "{}"}, {"found": "["}]
)
def test_metadata_of_something_else_are_refused(metadata, entry, tmp_path):
    path = write_entry(tmp_path / "worst.safetensors", entry)
    changed(path, metadata=metadata)
    with pytest.raises(DmverifyError):
        read_entry(path)


def test_a_truncated_file_is_refused(entry, tmp_path):
    path = write_entry(tmp_path / "worst.safetensors", entry)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DmverifyError):
        read_entry(path)


def test_the_command_finds_writes_and_says(tmp_path):
    out = tmp_path / "worst.safetensors"
    words = ["attack", "simulation", "--contract", "article:delta=stale", "--against", "operands"]
    words += ["--shape", "1,1,16,32", "--evaluations", "3000", "--seeds", "1", "--out", str(out)]
    done = CliRunner().invoke(cli, [*words, "--on", "simulation", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["value"] > 3 * found["drawn"]
    assert found["on"]["simulation"]["dq"] == found["distances"]["dq"]
    assert "delta" in found["words"][0]
    assert found["smallest"]["queries"] <= 4
    again = CliRunner().invoke(cli, ["verify", "simulation", "--inputs", str(out)])
    assert again.exit_code == 0, again.output
    text = CliRunner().invoke(cli, words).stdout
    assert "drawing alone" in text


def test_finds_in_a_folder_are_a_corpus_that_any_kernel_is_asked(tmp_path):
    few = ["--shape", "1,1,8,32", "--evaluations", "200", "--seeds", "1", "--out", str(tmp_path)]
    for output in ("dq", "dv"):
        done = CliRunner().invoke(cli, ["attack", "simulation", "--maximise", output, *few])
        assert done.exit_code == 0, done.output
    asked = ["attack", "simulation", "--corpus", str(tmp_path), "--json"]
    done = CliRunner().invoke(cli, asked)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert {row["output"] for row in rows} == {"dq", "dv"}
    assert all(row["here"] == pytest.approx(row["there"]) for row in rows)


@pytest.mark.parametrize("words", [["--on", "nobody"], ["--out", "/proc/none/x.safetensors"]])
def test_what_is_needed_after_the_search_is_looked_at_before(words, monkeypatch):
    def search(*args, **kwargs):
        raise AssertionError("searched")

    monkeypatch.setattr("dmverify.cli.attack_search.run", search)
    done = CliRunner().invoke(cli, ["attack", "simulation", *words])
    assert done.exit_code == 2, done.output
    assert "fix:" in done.output


@pytest.mark.parametrize(
    "words",
    [
        ["--shape", "2,1,32,32"],
        ["--shape", "32"],
        ["--maximise", "dz"],
        ["--limits", "none"],
        ["--near", "nothing"],
        ["--near", "minilm/layer3", "--within", "300%"],
        ["--contract", "bundled"],
        ["--device", "abacus"],
    ],
)
def test_wrong_words_are_usage_errors(words):
    done = CliRunner().invoke(cli, ["attack", "simulation", "--evaluations", "10", *words])
    assert done.exit_code == 2, done.output
    assert "fix:" in done.output
