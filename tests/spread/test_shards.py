"""Shards of a run, merged: the report that one run gives, or a refusal that says why."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dmverify import verify
from dmverify.cli.main import cli
from dmverify.conformance.spread import Spread
from dmverify.conformance.spread.merge import merge
from dmverify.conformance.spread.plan import FILE
from dmverify.errors import InputError

KERNEL = "numpy_attention:Attention"
WRONG = "numpy_attention:Shortcut"
SMALL = ",batch=1,heads=1,kv_heads=1,queries=3,keys=4,head_dim=32,causal=0@0"
CASES = tuple(
    f"{name}{SMALL}"
    for name in (
        "constant-v/tenth",
        "gaussian/spread-4",
        "offset/k-0",
        "special/q-nan",
        "tagged/own",
    )
)


def dmverify(*words):
    return CliRunner().invoke(cli, words, prog_name="dmverify")


def judged(kernel, folder=None, shard=(0, 1), **options):
    spread = Spread(shard, keep=folder) if folder else None
    options = {"cases": CASES, "in_process": True, "reproduce": False} | options
    return verify(kernel, spread=spread, **options)


def shards(kernel, folder, count, **options):
    folders = [folder / f"part-{number}" for number in range(count)]
    for number, one in enumerate(folders):
        judged(kernel, one, (number, count), **options)
    return folders


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("kernel", [KERNEL, WRONG])
def test_the_merged_report_is_that_of_one_run(tmp_path, kernel, count):
    options = {"min_served": 0.5, "max_error": {"o": 1e-9}}
    whole = judged(kernel, **options)
    merged = merge(shards(kernel, tmp_path, count, **options)[::-1])  # in any order
    assert merged.to_json() == whole.to_json()
    assert merged.to_junit() == whole.to_junit()
    assert merged.exit_code == whole.exit_code == 1


def test_expectations_are_applied_to_the_whole(tmp_path):
    file = tmp_path / "expect.toml"
    rows = [
        f'[[expect]]\ncase = "{case}*"\nverdict = "fails"\nreason = "known"\n'
        for case in ("gaussian", "constant-v", "nowhere")
    ]
    file.write_text("\n".join(rows))
    whole = judged(WRONG, expect=file)
    merged = merge(shards(WRONG, tmp_path, 3, expect=file))
    assert merged.to_json() == whole.to_json()
    assert [text for text in merged.warnings if "nowhere" in text]


def test_a_report_of_a_shard_says_that_it_is_one(tmp_path):
    report = judged(KERNEL, tmp_path / "part", (1, 3))
    assert [note for note in report.notes if note.startswith("shard 1/3")]
    assert report.served.asked == 2


def test_what_is_no_whole_run_is_refused(tmp_path):
    folders = shards(KERNEL, tmp_path, 2)
    with pytest.raises(InputError, match="every shard of one run"):
        merge(folders[:1])
    with pytest.raises(InputError, match="every shard of one run"):
        merge([*folders, folders[0]])
    other = tmp_path / "other"
    judged(WRONG, other, (1, 2))
    with pytest.raises(InputError, match="another asking"):
        merge([folders[0], other])
    judged(KERNEL, other, (1, 2), cases=CASES[:4])
    with pytest.raises(InputError, match="another asked"):
        merge([folders[0], other])
    judged(WRONG, tmp_path / "stopped", (0, 1), stop=True)
    with pytest.raises(InputError, match="interrupted with"):
        merge([tmp_path / "stopped"])


def test_what_cannot_be_in_parts_is_refused(tmp_path):
    part = Spread((0, 2), keep=tmp_path)
    with pytest.raises(InputError, match="no kernel spread over"):
        verify(spread=part)
    with pytest.raises(InputError, match="recorded-bundled"):
        verify("recorded-bundled", spread=part)
    with pytest.raises(InputError, match="level soak spread over"):
        verify(KERNEL, level="soak", spread=part)
    with pytest.raises(InputError, match="leave --in-process out"):
        verify(KERNEL, in_process=True, spread=Spread(workers=lambda _: None, gpus=1))
    with pytest.raises(InputError, match="without a folder"):
        Spread((0, 2))
    with pytest.raises(InputError, match="--resume without"):
        Spread(resume=True, keep=tmp_path)


def test_the_two_verbs(tmp_path):
    words = [word for case in CASES[:3] for word in ("--case", case)]
    common = ["verify", WRONG, *words, "--in-process"]
    for number in range(2):
        out = str(tmp_path / f"part-{number}")
        dmverify(*common, "--shard", f"{number}/2", "--out", out)
    whole = dmverify(*common, "--out", str(tmp_path / "whole"))
    parts = [str(tmp_path / "part-0"), str(tmp_path / "part-1")]
    merged = dmverify("merge", *parts, "--out", str(tmp_path / "merged"))
    assert merged.exit_code == whole.exit_code == 1
    assert merged.stdout == whole.stdout
    for name in ("report.json", "junit.xml"):
        assert (tmp_path / "merged" / name).read_text() == (tmp_path / "whole" / name).read_text()
    assert json.loads((tmp_path / "merged" / "report.json").read_text())["ok"] is False
    assert not Path(tmp_path / "whole" / FILE).exists()
    refused = dmverify("merge", parts[0])
    assert refused.exit_code == 2
    assert "every shard" in refused.stderr
