"""Tensors of a file are judged in one command, and outputs that lie beside them in another."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import dmverify
from dmverify.cli import cli
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.reproduce import fails_anew
from dmverify.conformance.tensor_files import Source, bring_file
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError, UnknownNameError
from tests.tensor_files.making import numbers, saved, tensors


class Larger(Simulation):
    """Wrong: O is 1/16 too large."""

    def backward(self, case):
        found = super().backward(case)
        return replace(found, o=found.o * np.float32(1.0625))


def command(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="dmverify")


def answered(path, spoil=lambda found: found, drop=()):
    """A file with the simulation's outputs beside the inputs."""
    bare = saved(path.with_suffix(".pt"), "pt")
    (case_id,) = bring_file(Source(bare))
    found = Simulation().backward(generate(case_id, contract="article"))
    outputs = {name: torch.from_numpy(x) for name, x in found.items() if name != "delta"}
    outputs = {name: x for name, x in spoil(outputs).items() if name not in drop}
    save_file({**tensors(), **outputs}, path, metadata={"causal": "1"})
    return path


def test_a_kernel_is_judged_on_a_file_and_its_repro_line_runs(tmp_path):
    path = saved(tmp_path / "calls.npz", "npz")
    assert command("verify", "simulation", "--inputs", path).exit_code == 0
    failed = command("verify", f"{__name__}:Larger", "--inputs", path)
    assert failed.exit_code == 1
    (line,) = [x for x in failed.output.splitlines() if "--case tensors/" in x][:1]
    words = shlex.split(line[line.index("dmverify verify") :])[1:]
    assert str(path) in words
    again = command(*words)
    assert again.exit_code == 1
    assert "tensors/" in again.output


def test_outputs_of_a_file_are_judged_without_a_kernel(tmp_path):
    path = answered(tmp_path / "x.safetensors")
    assert command("verify", "--inputs", path).exit_code == 2
    assert command("verify", "--contract", "article", "--inputs", path).exit_code == 0
    report = dmverify.verify(contract="article", inputs=[str(path)])
    judged = {c.id for c in report.checks if c.verdict is Verdict.CONFORMS}
    assert {"o", "lse", "dq", "dk", "dv", "nan", "sum-dk"} <= judged


@pytest.mark.parametrize("name", ["o", "lse", "dq", "dk", "dv"])
def test_one_wrong_number_among_outputs_of_a_file_is_found(name, tmp_path):
    def spoil(outputs):
        outputs[name].view(-1)[7] += outputs[name].abs().max()
        return outputs

    path = answered(tmp_path / "x.safetensors", spoil)
    failed = command("verify", "--contract", "article", "--inputs", path)
    assert failed.exit_code == 1
    report = dmverify.verify(contract="article", inputs=[str(path)])
    found = {c.id: c.verdict for c in report.checks}
    assert found[name] is Verdict.FAILS
    line = report.repro(report.worst(name)) if hasattr(report, "repro") else ""
    assert str(path) in (line or failed.output)


def test_outputs_of_the_forward_pass_alone(tmp_path):
    path = answered(tmp_path / "x.safetensors", drop=("dq", "dk", "dv", "lse"))
    report = dmverify.verify(contract="article", inputs=[str(path)])
    found = {c.id: c.worst for c in report.checks}
    assert report.ok
    assert found["o"].verdict is Verdict.CONFORMS
    assert found["dq"].verdict is Verdict.UNSUPPORTED
    assert "no gradients" in found["dq"].reason
    assert found["lse"].verdict is Verdict.UNSUPPORTED


def test_a_case_without_outputs_among_others_is_shown_as_such(tmp_path):
    path = answered(tmp_path / "x.safetensors")
    other = saved(tmp_path / "other.pt", "pt", seed=3)
    report = dmverify.verify(contract="article", inputs=[str(path), str(other)])
    assert report.ok
    assert (report.served.asked, report.served.served) == (2, 1)


def test_three_steps_name_the_file_in_each(tmp_path):
    path = saved(tmp_path / "x.pt", "pt")
    listed, out = tmp_path / "cases.txt", tmp_path / "out"
    inputs = ("--inputs", path)
    assert command("gen", listed, "--contract", "article", *inputs).exit_code == 0
    assert command("run", "simulation", out, "--cases", listed, *inputs).exit_code == 0
    assert command("check", out, *inputs).exit_code == 0
    assert command("run", "simulation", tmp_path / "direct", *inputs).exit_code == 0
    (case_id,) = bring_file(Source(path))
    replayed = command("replay", case_id, *inputs)
    assert replayed.exit_code == 0
    assert command("bounds", *inputs).exit_code == 0


def test_bounds_are_of_one_case(tmp_path):
    second = {f"b.{name}": x for name, x in tensors(1).items()}
    path = saved(tmp_path / "x.pt", "pt", prefix="a.", **second)
    assert command("bounds", "--inputs", path).exit_code == 2
    assert command("bounds", "--inputs", f"{path}:b").exit_code == 0


def test_an_id_that_nobody_brought_says_how_to():
    with pytest.raises(UnknownNameError, match="--inputs FILE"):
        generate("tensors/0123456789abcdef@0")


def own(contract="article", **changes):
    inputs = dmverify.Inputs(**{**tensors(), **changes})
    problem = dmverify.Problem(1, 4, 2, 9, 11, 32)
    return dmverify.Case("mine", contract, problem, inputs)


def test_cases_of_the_callers_own_with_tensors_of_torch(tmp_path):
    case = own()
    np.testing.assert_array_equal(case.inputs.q, numbers()["q"])
    report = dmverify.verify("simulation", cases=[case, "lengths/n2@0"])
    assert report.ok
    assert {f.case.split("/")[0] for f in report.findings} == {"tensors", "lengths"}
    assert not dmverify.verify(Larger(), cases=[case]).ok
    (from_file,) = bring_file(Source(saved(tmp_path / "x.pt", "pt")))
    assert from_file in {f.case for f in report.findings}


def test_the_contract_of_own_cases_is_taken_unless_another_is_named():
    assert dmverify.verify("simulation", cases=[own("upstream")]).contract == "upstream"
    assert dmverify.verify("simulation", "article", cases=[own("upstream")]).ok
    with pytest.raises(InputError, match="article, upstream"):
        dmverify.verify("simulation", cases=[own(), own("upstream", q=tensors(2)["q"])])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: torch.ones(1, 9, 4, 32, dtype=torch.float64), "of type Tensor"),
        (lambda: torch.full((1, 9, 4, 32), 1 + 2**-20), "BF16 numbers"),
        (lambda: torch.ones(1, 9, 4, 64).bfloat16(), "shape"),
        (lambda: [[1.0]], "of type list"),
    ],
)
def test_arrays_that_are_no_inputs_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        own(q=wrong())


def test_a_failure_on_a_file_is_repeated_in_a_new_process(tmp_path):
    path = saved(tmp_path / "x.pt", "pt")
    (case_id,) = bring_file(Source(path))
    name = f"{__name__}:Larger"
    asked = [(case_id, "article")]
    assert fails_anew(name, "o", asked)
    assert not fails_anew("simulation", "o", asked)
    report = dmverify.verify(name, inputs=[str(path)], reproduce=True)
    assert not any("new process" in note for note in report.notes)
