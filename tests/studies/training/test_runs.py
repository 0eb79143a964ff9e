"""A run: resumable to the bit, seeds beside each other, AdamW, corpora, what is recorded."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dmverify.errors import UnknownNameError
from dmverify.studies.resume import held
from dmverify.studies.training.attention import Layer, forward
from dmverify.studies.training.corpus import ALPHABET, BLOCK, load_corpus
from dmverify.studies.training.job import Job
from dmverify.studies.training.model import new_models
from dmverify.studies.training.on_card import _Look
from dmverify.studies.training.optimiser import AdamW, numbers
from dmverify.studies.training.recipe import EXACT, fp8
from dmverify.studies.training.runs import finished, kept_records, records_of, run, sitting
from dmverify.studies.training.setting import BYTES, CHARACTERS, TINY
from dmverify.studies.training.state import Plan, advance, begin
from dmverify.studies.training.watch import Watch, entropy, ratio

MANUAL = replace(TINY, corpus="python-manual", qk_norm=True)


def never():
    return False


def job(recipe=EXACT, seeds=(0, 1), steps=4, **words):
    return Job("test", replace(MANUAL, **words), recipe, seeds, steps, "fp32", 2)


def trained(one, folder, stop=never):
    return run(one, device="cpu", folder=folder, state_folder=folder, stop=stop)


def test_the_articles_number_of_parameters():
    assert new_models(CHARACTERS, (0,), "cpu").count == 428_928


def test_an_interrupted_run_ends_in_the_same_record(tmp_path, monkeypatch):
    monkeypatch.setattr("dmverify.studies.training.state.AHEAD", 1)
    one = job(fp8("stale"))
    whole = trained(one, tmp_path / "whole")
    asked = []
    first = trained(one, tmp_path / "parts", lambda: asked.append(1) or len(asked) > 3)
    assert not first["done"]
    assert 0 < first["reached"] < one.steps
    second = trained(one, tmp_path / "parts")
    assert second["done"]
    signless = [
        [{k: v for k, v in point.items() if k != "loss"} for point in record["points"]]
        for record in (whole, second)
    ]
    assert signless[0] == signless[1]
    assert not list((tmp_path / "parts").glob("*.pt"))


def test_a_finished_run_is_not_made_again(tmp_path):
    lines = []
    words = {"device": "cpu", "folder": tmp_path, "state_folder": tmp_path, "stop": never}
    sitting([job()], **words, progress=lines.append)
    sitting([job()], **words, progress=lines.append)
    assert len(lines) == 1


def test_processes_share_the_jobs_of_a_folder(tmp_path):
    """Who holds a job runs it; the others go on to the next."""
    first, second = job(), job(fp8("stale"))
    lines = []
    words = {"device": "cpu", "folder": tmp_path, "state_folder": tmp_path, "stop": never}
    with held(tmp_path / f"{first.key}.lock") as mine:
        assert mine
        sitting([first, second], **words, progress=lines.append)
    assert [finished(one, tmp_path) for one in (first, second)] == [False, True]
    sitting([first, second], **words, progress=lines.append)
    assert len(lines) == 2
    assert kept_records([second, first], tmp_path)[1]["name"] == "exact"
    assert kept_records([job(rate=5e-3)], tmp_path) == []


def test_runs_side_by_side_are_those_one_after_the_other(tmp_path):
    jobs, lines = [job(), job(fp8("stale"))], []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns = records_of(jobs, out=tmp_path / "turns", progress=lines.append)
        beside = records_of(jobs, out=tmp_path / "beside", progress=lines.append, processes=2)
    finally:
        torch.set_num_threads(threads)
    assert [one["name"] for one in beside] == ["exact", "stale"]
    assert beside == turns
    assert lines[:2] == lines[2:]
    assert beside[0]["points"] != beside[1]["points"]


def test_a_record_of_another_job_is_not_taken_for_this_one(tmp_path):
    """The key does not hold the rate."""
    trained(job(), tmp_path)
    assert finished(job(), tmp_path)
    assert job(rate=5e-3).key == job().key
    assert not finished(job(rate=5e-3), tmp_path)
    assert not finished(job(seeds=(0, 2)), tmp_path)


def test_seeds_beside_each_other_are_those_alone(tmp_path):
    both = trained(job(fp8("matched")), tmp_path / "both")["points"][-1]["validation"]
    alone = trained(job(fp8("matched"), seeds=(1,)), tmp_path / "one")["points"][-1]["validation"]
    assert both[1] == pytest.approx(alone[0], abs=2e-3)
    assert both[0] != pytest.approx(both[1], abs=2e-3)


def test_a_record_is_json_and_says_where_it_comes_from(tmp_path):
    record = trained(job(), tmp_path)
    (path,) = tmp_path.glob("*.json")
    assert path.read_text() == json.dumps(record) + "\n"
    assert record["text"]["sha256"] == load_corpus("python-manual").digest
    assert record["machine"]["torch"] == torch.__version__
    assert [point["step"] for point in record["points"]] == [0, 2, 4]
    assert len(record["points"][-1]["sign"]) == MANUAL.layers


def test_adamw_is_torchs():
    setting = replace(MANUAL, warmup=2)
    models = new_models(setting, (0,), "cpu")
    ours = AdamW(models)
    theirs = models.buffer.clone().requires_grad_()
    optimiser = torch.optim.AdamW([theirs], lr=setting.rate, betas=setting.betas, weight_decay=0.1)
    for step in range(5):
        models.gradient.copy_(torch.randn(models.buffer.shape) * 1e-3)
        theirs.grad = models.gradient.clone()
        optimiser.param_groups[0]["lr"] = numbers(setting, step)[0]
        optimiser.step()
        ours.numbers.copy_(torch.tensor(numbers(setting, step)))
        ours.step()
    assert torch.allclose(models.buffer, theirs.detach(), rtol=1e-5, atol=1e-7)


def test_a_step_follows_the_gradient_of_the_loss():
    """The loss falls along it as much as first order says."""
    one = job(steps=1)
    state = begin(one, "cpu")
    state.tokens.copy_(Plan.of(one, "cpu").tokens(0, one.setting.context + 1))
    before = state.models.buffer.clone()
    loss = advance(state)
    gradient = state.models.gradient.clone()
    state.models.buffer.copy_(before - 1e-2 * gradient)
    lower = advance(state)
    stated = 1e-2 * gradient.square().sum(1)
    assert torch.allclose(loss - lower, stated, rtol=0.05)


@pytest.mark.parametrize("name", ["python-source", "python-manual"])
def test_corpora(name):
    found = load_corpus(name)
    assert len(found.held_out) % BLOCK == 0
    assert 0.05 < len(found.held_out) / len(found.training) < 0.12
    symbols = {"python-source": BYTES.symbols, "python-manual": len(ALPHABET)}[name]
    assert found.training.max() < symbols
    assert found.describe()["symbols"] == len(found.training) + len(found.held_out)


def test_an_unknown_corpus():
    with pytest.raises(UnknownNameError, match="python-source"):
        load_corpus("python-sauce")


def signs(columns):
    """The sign share of column sums given a step, one layer and seed and head."""
    watch = Watch(1, 1)
    for c in columns:
        watch.keys(0, torch.tensor(c).reshape(1, 1, -1))
    return watch.sign()[0][0]


def test_one_sided_column_sums_are_told_from_random_ones():
    draw = np.random.default_rng(0).normal(size=(100, 64)).astype(np.float32)
    assert signs(np.abs(draw)) == pytest.approx(1.0)
    assert signs(draw) < 0.2


def test_ratio():
    rows = ratio(torch.tensor([[1.0, -1.0], [1.0, 1.0], [0.0, 0.0]]))
    assert rows[:2].tolist() == [0.0, 1.0]
    assert math.isnan(rows[2])


def test_what_is_seen_beside_the_kernel():
    """Its K and dK pass unchanged; entropy is exact attention's on the same Q and K."""
    torch.manual_seed(0)
    q, k, v, dk = torch.randn(4, 2, 64, 32)
    watch = Watch(1, 2, probing=True)
    leaf = k.clone().requires_grad_()
    seen = _Look.apply(leaf, q, Layer(fp8("stale"), watch, 0))
    seen.backward(dk)
    assert torch.equal(seen, k)
    assert torch.equal(leaf.grad, dk)
    found = watch.probes[0]
    assert set(found) == {"k_mean", "k_ratio", "column_cast", "entropy"}
    wide = forward(EXACT, q, k, v)
    assert float(found["entropy"]) == pytest.approx(float(entropy(wide.e / wide.l).median()))
    _Look.apply(leaf, 50 * q, Layer(fp8("stale"), watch, 0)).backward(dk)
    assert float(watch.probes[0]["entropy"]) < float(found["entropy"]) / 4
