"""Tensors that ``gen`` writes are read in three lines by others, and by ``--inputs`` again."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from dmverify.cli import cli
from dmverify.conformance.families import generate

CASES = ["lengths/n17@0", "logit-size/negative-scale,queries=9,keys=12@3"]


@pytest.fixture
def made(tmp_path):
    def write(kind):
        words = ["gen", str(tmp_path / "out"), "--contract", "article", "--format", kind]
        done = CliRunner().invoke(cli, [*words, *(w for c in CASES for w in ("--case", c))])
        assert done.exit_code == 0, done.output
        return tmp_path / "out"

    return write


READ = {
    "safetensors": lambda file: {n: x.float().numpy() for n, x in load_file(file).items()},
    "npz": lambda file: dict(np.load(file)),
    "pt": lambda file: {
        n: x.float().numpy() if isinstance(x, torch.Tensor) else x
        for n, x in torch.load(file, weights_only=True).items()
    },
}


@pytest.mark.parametrize("kind", READ)
def test_the_numbers_are_those_of_the_case(kind, made):
    folder = made(kind)
    index = json.loads((folder / "index.json").read_text())
    assert [row["case"] for row in index] == CASES
    for row in index:
        found = READ[kind](folder / row["file"])
        case = generate(row["case"], contract=row["contract"])
        for name, array in case.inputs.items():
            assert np.array_equal(found[name], array)
        if kind != "safetensors":
            assert bool(found["causal"]) is case.problem.causal
            assert float(found["softmax_scale"]) == case.problem.scale


@pytest.mark.parametrize("kind", READ)
def test_they_are_asked_again(kind, made):
    folder = made(kind)
    file = next(folder.glob(f"0001-*.{kind}"))
    words = ["verify", "simulation", "--inputs", str(file), "--check", "dq"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "conforms" in done.output
