"""Every study of models runs in its reduced form, and writes what it says it does."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from dmverify.errors import InputError
from dmverify.studies import STUDIES
from dmverify.studies.training.job import Job

QUICK = ("train", "separate", "mechanism", "real-model", "scale", "ablations")


@pytest.fixture(scope="module", params=QUICK)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    lines = []
    result = STUDIES[request.param].run(quick=True, out=folder, progress=lines.append)
    return request.param, result, folder, lines


def test_files_tables_and_pictures(made):
    name, result, folder, lines = made
    assert lines
    assert json.loads((folder / f"{name}.json").read_text()) == json.loads(
        json.dumps(result.to_json(), allow_nan=False)
    )
    assert result.to_json()["command"] == f"dmverify study {name} --out DIR --quick"
    for table in result.tables():
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert result.plots
    for plot in result.plots:
        ElementTree.parse(folder / f"{name}-{plot.name}.svg")
    assert (folder / f"{name}.html").exists()


@pytest.mark.parametrize("name", ["train", "ablations"])
def test_a_second_call_trains_nothing(name, tmp_path, monkeypatch):
    study = STUDIES[name]
    monkeypatch.setattr(f"dmverify.studies.{name}.jobs", lambda *a, **k: FEW)
    first, second = [], []
    study.run(quick=True, seeds=(0, 1), out=tmp_path, progress=first.append)
    study.run(quick=True, seeds=(0, 1), out=tmp_path, progress=second.append)
    trained = [line for line in first if "step" in line]
    assert len(trained) == len(FEW)
    assert not [line for line in second if "step" in line]


def few():
    from dataclasses import replace

    from dmverify.studies.training.recipe import EXACT, fp8
    from dmverify.studies.training.setting import TINY

    model = replace(TINY, qk_norm=True, corpus="python-manual")
    return [Job("few", model, recipe, (0, 1), 2, "fp32", 2) for recipe in (EXACT, fp8("stale"))]


FEW = few()


def test_bad_seeds():
    for name in QUICK:
        with pytest.raises(InputError, match="seeds"):
            STUDIES[name].run(quick=True, seeds=(1, 1))


def captured(path, **more):
    draw = np.random.default_rng(0)
    shape = (1, 32, 2, 32)
    tensors = {name: draw.normal(size=shape).astype(np.float32) for name in ("q", "k", "v", "do")}
    whole = {name: (x.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, x in tensors.items()}
    np.savez(path, **{name: x for name, x in whole.items() if name not in more.get("without", ())})


def test_real_model_takes_a_users_own_tensors(tmp_path):
    from dmverify.conformance.tensor_files import Source

    captured(tmp_path / "mine.npz")
    source = Source(tmp_path / "mine.npz", causal=True)
    result = STUDIES["real-model"].run(quick=True, inputs=(source,))
    rows = result.to_json()["rows"]
    assert {row["capture"] for row in rows} == {"mine"}
    assert {row["head"] for row in rows} == {0, 1}
    stale, matched = (
        [row["residual"] for row in rows if row["delta"] == delta] for delta in ("stale", "matched")
    )
    assert min(stale) > 1e3 * max(matched)


def test_real_model_wants_gradients(tmp_path):
    from dmverify.conformance.tensor_files import Source

    captured(tmp_path / "forward.npz", without=("do",))
    with pytest.raises(InputError, match="gradient"):
        STUDIES["real-model"].run(inputs=(Source(tmp_path / "forward.npz", causal=True),))
