"""The search for false positives: it covers every cell, its shards add up, and it can find one."""

import json
from collections import Counter
from pathlib import Path

import pytest

from dmverify.conformance.families import FAMILIES, list_families
from dmverify.errors import InputError
from dmverify.lab import false_positives, formats
from dmverify.lab.false_positives import (
    Job,
    Plan,
    cells_of,
    list_jobs,
    merge,
    search,
    search_shard,
)
from dmverify.lab.formats import FEATURES
from dmverify.lab.mutants.cheats import Fickle
from dmverify.spec.contracts import get_contract
from dmverify.studies.recorded import recorded
from tests.commands import lab, merging


def test_the_plan():
    jobs = list(list_jobs(("simulation", "emulator"), 100))
    assert len({(job.kernel, job.contract, job.case) for job in jobs}) == len(jobs) >= 10_000
    cells = {job.cell for job in jobs}
    assert len(jobs) == 100 * len(cells)
    assert {job.family for job in jobs} == {row.name for row in list_families(on_demand=False)}
    assert {job.family for job in jobs} == FAMILIES.keys() - {"long"}
    assert len({job.contract for job in jobs}) >= 15


@pytest.mark.parametrize("kernel", ["simulation", "recorded"])
def test_a_search_goes_on_where_another_ended(kernel):
    few = {"families": ["gaussian", "rows"]}
    first, more = list_jobs([kernel], 2, **few), list_jobs([kernel], 5, start=2, **few)
    both = Counter((job.contract, job.case) for jobs in (first, more) for job in jobs)
    assert both == Counter((job.contract, job.case) for job in list_jobs([kernel], 5, **few))
    shards = [search_shard(Plan(2, start=1, kernels=["simulation"], families=["rows"]))]
    assert merge(shards)["cells"] == cells_of({**shards[0], "start": 1})


def test_shards_merge_into_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(false_positives, "modes", lambda kernel: ("article",))
    few = {name: FAMILIES[name] for name in ("gaussian", "lengths", "integers")}
    monkeypatch.setattr(false_positives, "FAMILIES", few)
    paths = [str(tmp_path / f"{i}.json") for i in range(2)]
    for i, path in enumerate(paths):
        shard = f"{i}/2"
        words = ("--per", "3", "--kernels", "simulation", "--shard", shard, "--out", path)
        assert lab("false-positives", *words).exit_code == 0
    out = tmp_path / "all.json"
    assert lab("false-positives", *merging(paths), "--out", out).exit_code == 0
    record = json.loads(out.read_text())
    assert (record["cases"], record["fewest_in_a_cell"], record["alarms"]) == (9, 3, [])
    assert record["verdicts"]["dk"] == {"conforms": 9}
    for wrong in ([paths[0]], [paths[0], paths[0]]):
        said = lab("false-positives", *merging(wrong), "--out", out)
        assert said.exit_code == 2
        assert "every shard" in said.stderr
    records = [json.loads(Path(path).read_text()) for path in paths]
    records[0]["cells"]["simulation article gaussian"] -= 1
    with pytest.raises(InputError, match="the search has 9 in 3"):
        merge(records)


def test_asking_again_in_every_second_case():
    jobs = [
        j
        for j in list_jobs(("simulation",), 2)
        if j.cell == "simulation article:delta=stale gaussian"
    ]
    found = search(jobs, every=2)
    assert sum(found["verdicts"]["dk"].values()) == 2
    assert sum(found["verdicts"]["heads"].values()) == 1


def test_what_a_kernel_does_not_serve_is_not_counted(monkeypatch):
    found = search([Job("simulation", "bundled", "gaussian", "gaussian/spread-1@3")])
    assert found["cells"] == found["unserved"] == {"simulation bundled gaussian": 1}
    assert found["alarms"] == []


def test_the_formats_have_a_cell_each_and_a_wrong_one_is_found(monkeypatch):
    jobs = list(list_jobs(("formats",), 13))
    features = {job.contract for job in jobs}
    assert len(features) == len(FEATURES)
    assert min(Counter(job.contract for job in jobs).values()) >= 300
    few = [next(job for job in jobs if job.contract == name) for name in sorted(features)]
    assert search(few)["alarms"] == []
    plain = formats.interpret
    wrong = lambda contract, *rest: plain(get_contract("article:centre_k=none"), *rest)  # noqa: E731
    monkeypatch.setattr(formats, "interpret", wrong)
    assert {alarm["contract"] for alarm in search(few)["alarms"]} == features


def test_an_alarm_is_found(monkeypatch):
    monkeypatch.setattr(false_positives, "resolve_kernel", lambda name: Fickle())
    found = search([Job("simulation", "article", "gaussian", "gaussian/spread-1@3")])
    assert {"repeat-whole": "fails"}.items() <= {
        alarm["check"]: alarm["verdict"] for alarm in found["alarms"]
    }.items()


@pytest.mark.parametrize(
    "words",
    [
        ["--shard", "2/2"],
        ["--shard", "x"],
        ["--per", "0"],
        ["--start", "100"],
        ["--every", "0"],
        ["--kernels", "mine"],
    ],
)
def test_wrong_words(tmp_path, words):
    said = lab("false-positives", *words, "--out", tmp_path / "x")
    assert said.exit_code == 2
    assert "fix: " in said.stderr


@pytest.mark.parametrize(
    ("kernel", "contract"), [("emulator", "bundled"), ("simulation", "article")]
)
@pytest.mark.parametrize("variant", ["no-batch", "no-queries", "no-keys", "no-keys-full"])
def test_empty_extents_are_no_alarm(kernel, contract, variant):
    """The search met it: a call without heads has no numbers inside, and the emulator broke."""
    found = search([Job(kernel, contract, "lengths", f"lengths/{variant}@700029")])
    assert found["alarms"] == []
    assert found["verdicts"]["format"] == {"conforms": 1}


UNSEARCHED: set[str] = set()
"""Families that no recorded search knows yet."""
SINCE = {"cast-ties", "counts", "deciding", "exponentials", "attained", "witnesses"}
"""Families that came after the first searches."""


@pytest.mark.parametrize(
    ("study", "unknown"),
    [
        ("false_positives", UNSEARCHED | SINCE),
        ("false_positives_again", UNSEARCHED),
        ("false_positives_emulator", UNSEARCHED | SINCE),
    ],
)
def test_the_recorded_searches_are_silent_and_whole_but_for_newer_families(study, unknown):
    record = recorded(study)
    assert record["cells"] == {
        cell: n for cell, n in cells_of(record).items() if cell.rpartition(" ")[2] not in unknown
    }
    assert record["cases"] >= 12_000
    assert record["alarms"] == []
    assert record["verdicts"]["dk"]["conforms"] >= 0.9 * record["cases"]


def test_two_parts_of_the_live_search_have_2_000_cases_together():
    jobs, live = set(), [recorded(f"false_positives_bundled{name}") for name in ("", "_again")]
    for record in live:
        assert record["alarms"] == []
        assert record["cases"] + record["unserved"] == cells_of(record).total()
        due = enumerate(list_jobs(record["kernels"], record["per"]))
        jobs |= {job for n, job in due if n % record["shards"] in record["ran"]}
    assert len(jobs) - sum(record["unserved"] for record in live) >= 2_000


def test_the_formats_have_a_search():
    record = recorded("false_positives_formats")
    assert record["kernels"] == ["formats"]
    due = cells_of(record)
    assert record["cells"].keys() == due.keys()
    assert record["cases"] + record["unserved"] == due.total()
    assert record["alarms"] == []
    by_feature: Counter[str] = Counter()
    for cell, count in record["cells"].items():
        by_feature[cell.split()[1]] += count
    assert len(by_feature) == len(FEATURES)
    assert min(by_feature.values()) >= 300


def test_a_part_says_which_shards_ran(tmp_path):
    families = ["exponentials", "cast-ties"]
    plan = Plan(1, kernels=["simulation"], families=families)
    shards = [search_shard(plan, (i, 4)) for i in (3, 1)]
    record = merge(shards, part=True)
    assert (record["ran"], record["shards"], record["cases"]) == ([1, 3], 4, 6)
    assert record["cells"] == cells_of(record)
    for wrong in ([], [shards[0], shards[0]], [shards[0], shards[1] | {"per": 2}]):
        with pytest.raises(InputError, match="each once"):
            merge(wrong, part=True)
    shards[0]["cells"].popitem()
    with pytest.raises(InputError, match="the search has 6"):
        merge(shards, part=True)
    with pytest.raises(InputError, match="every shard"):
        merge(shards)


@pytest.mark.parametrize("study", ["false_positives", "false_positives_emulator"])
def test_the_recorded_searches_cover_enough(study):
    found, modes = recorded(study), Counter()
    for cell, count in found["cells"].items():
        _, contract, family = cell.split()
        modes[contract.partition(",ds_cast=")[0], family] += count
    assert found["cases"] >= 10_000
    assert min(modes.values()) >= 100
