"""Kernels as they are: no backward pass, no LSE, torch tensors of any format and device."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import dmverify
from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.three_steps import run_cases
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.conformance.verdict import Verdict
from dmverify.spec.case import Outputs
from dmverify.spec.recording import Provenance

CASES = ("lengths/q17-k129@0", "gaussian/spread-2,queries=130,keys=130,heads=4,kv_heads=2@0")
JUDGED = {"o", "lse", "nan", "dead-rows", "repeat", "repeat-whole", "heads", "power-v", "batch"}
GRADIENTS = {"dq", "dk", "dv", "sum-dv", "sum-dk"}


class ForwardOnly:
    """O and LSE of the simulation, as a kernel that has nothing else."""

    info = Provenance("forward-only")
    contract = "article"

    def __init__(self):
        self.inner = Simulation()

    def supports(self, case):
        return Supported()

    def forward(self, case):
        return self.inner.forward(case)


class SaysUnsupported(ForwardOnly):
    def backward(self, case):
        return Unsupported("inference only")


class IsNotImplemented(ForwardOnly):
    def backward(self, case):
        raise NotImplementedError("inference only")


class DropsTheLastKey(ForwardOnly):
    """Wrong: the forward pass leaves out a key's value."""

    def forward(self, case):
        v = np.array(case.inputs.v)
        v[:, -1] = 0
        return self.inner.forward(replace(case, inputs=replace(case.inputs, v=v)))


class WithoutLse(ForwardOnly):
    def forward(self, case):
        return Forward(self.inner.forward(case).o)


class LosesGradients(Simulation):
    """Wrong: gradients the first time only."""

    calls = 0

    def backward(self, case):
        self.calls += 1
        if self.calls > 1:
            raise NotImplementedError("no more")
        return super().backward(case)


class OneGradient(Simulation):
    """Wrong: a backward pass that forgets two of three."""

    def backward(self, case):
        found = super().backward(case)
        return Outputs(found.o, found.lse, found.dq)


class LseOnce(ForwardOnly):
    """Wrong: LSE in the first call only."""

    calls = 0

    def forward(self, case):
        self.calls += 1
        found = self.inner.forward(case)
        return found if self.calls % 2 else Forward(found.o)


def verdicts(kernel, **options):
    report = dmverify.verify(kernel, cases=CASES, **options)
    return report, {check.id: check.worst for check in report.checks}


@pytest.mark.parametrize("kind", [ForwardOnly, SaysUnsupported, IsNotImplemented])
def test_a_kernel_without_backward_is_judged_by_its_forward_pass(kind):
    report, found = verdicts(kind())
    assert (report.ok, report.exit_code) == (True, 0)
    assert {name for name in JUDGED if found[name].verdict is not Verdict.CONFORMS} == set()
    for name in GRADIENTS:
        assert found[name].verdict is Verdict.UNSUPPORTED
        assert "backward pass" in found[name].reason or "inference only" in found[name].reason


def test_a_wrong_forward_pass_fails_all_the_same():
    report, found = verdicts(DropsTheLastKey())
    assert report.exit_code == 1
    assert found["o"].verdict is Verdict.FAILS


def test_lse_is_judged_where_it_is_returned():
    report, found = verdicts(WithoutLse())
    assert report.ok
    assert found["lse"].verdict is Verdict.UNSUPPORTED
    assert found["lse"].reason == "the kernel returns no lse"
    assert found["o"].verdict is Verdict.CONFORMS
    report, found = verdicts(LseOnce())
    assert not report.ok
    assert found["repeat"].verdict is Verdict.FAILS


def test_gradients_that_come_once_or_in_part_are_no_answer():
    report, found = verdicts(LosesGradients(), checks=["repeat-whole", "dq"])
    assert not report.ok
    assert found["repeat-whole"].verdict is Verdict.FAILS
    assert "returned dq, dk, dv" in found["repeat-whole"].reason
    report, found = verdicts(OneGradient())
    assert report.exit_code == 1
    assert "without dk, dv" in found["format"].reason


def test_a_recording_keeps_what_there_is(tmp_path):
    asked = [(case, "article") for case in CASES]
    recording = run_cases(ForwardOnly(), asked, out=tmp_path / "r")
    assert all(outputs.names == ("o", "lse") for outputs in recording.answers.values())


def test_delta_cannot_be_read_off_a_forward_pass():
    setup = Setup(batch=1, heads=1, kv_heads=1, length=64, head_dim=32, runs=1)
    found = tomograph(ForwardOnly(), setup=setup)
    assert (found.verdict, found.exit_code) == ("unsupported", 5)
    assert "backward" in found.decision.reason


MODULE = """
import numpy as np, torch
from dmverify.conformance.adapter import Forward, Supported
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.spec.recording import Provenance

class Apart:
    info, contract = Provenance("apart"), "article"
    def supports(self, case):
        return Supported()
    def forward(self, case):
        found = Simulation().forward(case)
        return Forward(torch.from_numpy(found.o).bfloat16(), torch.from_numpy(found.lse))
"""


def test_in_a_process_of_its_own_too(tmp_path, monkeypatch):
    (tmp_path / "served_apart.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    report, found = verdicts("served_apart:Apart")
    assert report.ok
    assert found["o"].verdict is Verdict.CONFORMS
    assert found["dq"].verdict is Verdict.UNSUPPORTED
    assert "no backward pass" in found["dq"].reason


PROGRAM = """
import json, runpy, sys
lines, code = sys.stdin, open(EXAMPLE).read()
code = code.replace('["forward", "backward"]', '["forward"]')
exec(compile(code, EXAMPLE, "exec"))
"""


def test_a_program_without_backward_is_asked_forward(tmp_path):
    from dmverify.conformance.process import kernel as module

    example = module.__file__.replace("kernel.py", "example.py")
    path = tmp_path / "server.py"
    path.write_text(f"EXAMPLE = {example!r}\n{PROGRAM}")
    kernel = ProcessKernel(f"python3 {path}")
    try:
        report, found = verdicts(kernel)
    finally:
        kernel.close()
    assert report.ok
    assert found["o"].verdict is Verdict.CONFORMS
    assert found["dk"].verdict is Verdict.UNSUPPORTED


class InTorch(Simulation):
    """The simulation's answers as tensors of torch, in a format."""

    dtype, wrong = torch.float32, 1.0

    def _tensor(self, x):
        return (torch.from_numpy(x) * self.wrong).to(self.dtype).requires_grad_()

    def forward(self, case):
        found = super().forward(case)
        return Forward(self._tensor(found.o), torch.from_numpy(found.lse))

    def backward(self, case):
        found = super().backward(case)
        tensors = {name: self._tensor(x) for name, x in found.items() if name not in ROWS}
        return Outputs(lse=torch.from_numpy(found.lse), **tensors)


ROWS = ("lse", "delta")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_tensors_are_taken_as_they_are(dtype):
    kernel = InTorch()
    kernel.dtype = dtype
    report, found = verdicts(kernel)
    assert report.ok
    assert found["dq"].verdict is Verdict.CONFORMS
    kernel.wrong = 1.0625
    assert not verdicts(kernel)[0].ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_a_tensor_of_another_format_is_refused_and_not_rounded(dtype):
    kernel = InTorch()
    kernel._tensor = lambda x: torch.from_numpy(x).to(dtype)
    report, found = verdicts(kernel)
    assert report.exit_code == 1
    assert "o of type Tensor" in found["format"].reason


def test_a_tensor_in_an_inputs_memory_is_found(tmp_path):
    class Alias(ForwardOnly):
        def forward(self, case):
            found = self.inner.forward(case)
            shown = torch.from_numpy(case.inputs.q)
            shown.copy_(torch.from_numpy(found.o))
            return Forward(shown, found.lse)

    _, found = verdicts(Alias())
    assert found["outputs-kept"].verdict is Verdict.FAILS
    assert found["inputs-kept"].verdict is Verdict.FAILS
