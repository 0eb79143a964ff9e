"""Kernels that get codes and scales: handed over by the judge, or brought in a file."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dmverify import verify
from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.conformance.families import generate
from dmverify.conformance.guess import guess
from dmverify.conformance.session import handed
from dmverify.conformance.verdict import Verdict
from dmverify.errors import ContractError, InputError
from dmverify.spec.arithmetic.floating import Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.operands import prepare
from dmverify.spec.case import Case, Inputs
from dmverify.spec.contracts import find_contract, get_contract, read_contract
from dmverify.spec.formats import E4M3
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

GIVEN = (
    "article:operand_rule=given,centre_k=none,q_format=bf16,v_scales=channels,v_block=whole,"
    "gradients=false,store=fp32"
)
CACHE = "flash-3-fp8:operand_rule=given,scale_span=head,q_format=bf16,p=bf16,gradients=false"
PROBLEM = Problem(2, 4, 2, 3, 50, 32, causal=True)
CASE = "gaussian/spread-2,batch=1,heads=2,kv_heads=1,queries=70,keys=80,head_dim=32@0"


class Codes:
    """Attention on what it is given: codes times scales, P in blocks of 64 keys."""

    info = Provenance(kernel="codes")
    contract = GIVEN
    seen: tuple[str, ...] = ()

    def supports(self, case):
        if find_contract(case.contract) is None:
            return Unsupported("no contract has this name")
        return Supported()

    def numbers(self, inputs, name):
        return getattr(inputs, name) * inputs.scales.get(name, np.float32(1))

    def forward(self, case):
        inputs, problem = case.inputs, case.problem
        type(self).seen = tuple(sorted(inputs.scales))
        q, k, v = (self.numbers(inputs, name).swapaxes(1, 2) for name in ("q", "k", "v"))
        k, v = (x.repeat(problem.group, 1) for x in (k, v))
        s = np.where(problem.mask(), q @ k.swapaxes(-1, -2) * np.float32(problem.scale), -np.inf)
        live = problem.mask().any(1)[:, None]
        top = np.where(live, s.max(-1, keepdims=True, initial=-np.inf), np.float32(0))
        e = np.exp(s - top).astype(np.float32)
        total = np.where(live, e.sum(-1, keepdims=True), np.float32(1))
        codes = np.zeros_like(e)
        for start in range(0, problem.keys, 64):
            group = e[..., start : start + 64]
            amax = group.max(-1, keepdims=True)
            scale = np.where(amax == 0, np.float32(1), amax / np.float32(448))
            codes[..., start : start + 64] = E4M3.round(group / scale) * scale
        lse = np.where(live, top + np.log(total), -np.inf)[..., 0]
        return Forward((codes @ v / total).swapaxes(1, 2), lse.astype(np.float32))


class ScaleIgnored(Codes):
    """Wrong: V's codes are taken for its numbers."""

    def numbers(self, inputs, name):
        return inputs.v if name == "v" else super().numbers(inputs, name)


def drawn(seed=0):
    draw = np.random.default_rng(seed).standard_normal
    codes = {
        "q": draw((2, 3, 4, 32)).astype(ml_dtypes.bfloat16).astype(np.float32),
        "k": E4M3.round(draw((2, 50, 2, 32)).astype(np.float32) * 60),
        "v": E4M3.round(draw((2, 50, 2, 32)).astype(np.float32) * 60),
    }
    scales = {
        "k": np.abs(draw((2, 1, 2, 1))).astype(np.float32) / 60 + np.float32(1e-3),
        "v": np.abs(draw((1, 1, 2, 32))).astype(np.float32) / 60 + np.float32(1e-3),
    }
    return codes, scales


def written(path: Path, *, outputs=None, drop=()):
    codes, scales = drawn()
    tensors = {"q": torch.tensor(codes["q"]).bfloat16()}
    tensors |= {n: torch.tensor(codes[n]).to(torch.float8_e4m3fn) for n in ("k", "v")}
    tensors |= {f"{n}_scale": torch.tensor(x) for n, x in scales.items() if n not in drop}
    tensors |= {n: torch.tensor(np.ascontiguousarray(x)) for n, x in (outputs or {}).items()}
    save_file(tensors, path, {"causal": "true"})
    return codes, scales


def test_a_kernel_gets_the_codes_that_its_contract_states():
    report = verify(Codes(), cases=[CASE, "distinct-scales/thirds@0", "lengths/q129-k17@0"])
    assert report.ok, report.to_junit()
    assert Codes.seen == ("k", "v")
    wrong = verify(ScaleIgnored(), cases=[CASE])
    assert wrong.margin["o"] > 1 >= wrong.margin["lse"]


def test_codes_reach_a_kernel_in_a_process_of_its_own():
    right, wrong = (
        verify(f"{__name__}:{kernel.__name__}", cases=[CASE], checks=["o", "lse"])
        for kernel in (Codes, ScaleIgnored)
    )
    assert right.ok, right.to_junit()
    assert wrong.margin["o"] > 1 >= wrong.margin["lse"]


def test_the_codes_are_those_that_the_judge_uses():
    case = generate(CASE, contract=GIVEN)
    shown = handed(case).inputs
    ready = prepare(get_contract(GIVEN), case.problem, case.inputs, cast=True).tensors
    again = prepare(get_contract(GIVEN), case.problem, shown, cast=True).tensors
    for name in ("q", "k", "v"):
        for one, other in zip(ready[name], again[name], strict=True):
            assert np.array_equal(
                np.broadcast_to(one, one.shape), np.broadcast_to(other, one.shape)
            )
    assert np.array_equal(shown.q, case.inputs.q)
    assert shown.scales["v"].shape[3] == 32


def test_a_case_with_nan_has_no_codes_and_is_not_asked():
    report = verify(Codes(), cases=["special/v-nan@0", CASE], checks=["o"])
    assert [f.check for f in report.findings if f.case.startswith("special")] == ["supported"]


def test_codes_of_a_file_are_judged_with_their_scales(tmp_path):
    path = tmp_path / "cache.safetensors"
    written(path)
    report = verify(Codes(), inputs=[str(path)])
    assert report.ok, report.to_junit()
    assert report.margin["o"] > 0
    wrong = verify(ScaleIgnored(), inputs=[str(path)])
    assert wrong.margin["o"] > 1


def test_outputs_beside_codes_are_judged_without_a_kernel(tmp_path):
    codes, scales = drawn()
    zero = np.zeros_like(codes["q"])
    case = Case("mine/cache@0", GIVEN, PROBLEM, Inputs(**codes, do=zero, scales=scales))
    found = Codes().forward(case)
    outputs = {"o": found.o, "lse": found.lse}
    written(tmp_path / "right.safetensors", outputs=outputs)
    report = verify(None, GIVEN, inputs=[str(tmp_path / "right.safetensors")])
    assert report.ok, report.to_junit()
    written(tmp_path / "wrong.safetensors", outputs={**outputs, "o": found.o * np.float32(1.02)})
    assert not verify(None, GIVEN, inputs=[str(tmp_path / "wrong.safetensors")]).ok


def test_a_scale_is_part_of_what_was_asked(tmp_path):
    codes, scales = drawn()
    found = []
    for factor in (1, 2):
        given = scales | {"v": scales["v"] * np.float32(factor)}
        inputs = Inputs(**codes, do=np.zeros_like(codes["q"]), scales=given)
        case = Case("mine/cache@0", GIVEN, PROBLEM, inputs, backward=False)
        report = verify(Codes(), cases=[case], checks=["o"])
        assert report.ok
        found.append({finding.case for finding in report.findings})
    assert not found[0] & found[1]


class NanSwallowed(Codes):
    """Wrong: a code that is NaN counts as 0."""

    def numbers(self, inputs, name):
        return np.nan_to_num(super().numbers(inputs, name))


@pytest.mark.parametrize("name", ["k", "v"])
def test_a_code_that_is_nan_is_nan_in_what_sees_it(name, tmp_path):
    codes, scales = drawn()
    codes[name][0, 3, 0, 5] = np.nan
    tensors = {"q": torch.tensor(codes["q"]).bfloat16()}
    tensors |= {n: torch.tensor(codes[n]).to(torch.float8_e4m3fn) for n in ("k", "v")}
    tensors |= {f"{n}_scale": torch.tensor(x) for n, x in scales.items()}
    torch.save({**tensors, "causal": True}, tmp_path / "x.pt")
    inputs = [str(tmp_path / "x.pt")]
    right, wrong = (verify(kernel, inputs=inputs) for kernel in (Codes(), NanSwallowed()))
    assert right.ok, right.to_junit()
    assert {found.check for found in wrong.findings if found.verdict is Verdict.FAILS} >= {"nan"}


def test_codes_without_a_scale_are_refused(tmp_path):
    written(tmp_path / "x.safetensors", drop=("v",))
    with pytest.raises(InputError, match="v_scale"):
        verify(Codes(), inputs=[str(tmp_path / "x.safetensors")])


@pytest.mark.parametrize(
    ("contract", "named"),
    [
        ("article", "operand_rule"),
        (GIVEN.replace("q_format=bf16", "v_format=e5m2"), "v_format"),
        (GIVEN.replace("q_format=bf16", "k_format=bf16,q_format=bf16"), "k_format"),
    ],
)
def test_codes_for_another_contract_are_refused(contract, named):
    codes, scales = drawn()
    inputs = Inputs(**codes, do=np.zeros_like(codes["q"]), scales=scales)
    with pytest.raises(InputError, match=named):
        interpret(get_contract(contract), PROBLEM, inputs, Single())


def test_scales_have_one_number_where_they_are_shared():
    """A kernel broadcasts them as they come: by head, by channel of a head, or one for the call."""
    for contract, due in (
        (CACHE.replace("scale_span=head,", ""), {"k": (2, 1, 2, 1), "v": (2, 1, 2, 1)}),
        (CACHE, {"k": (2, 1, 2, 1), "v": (2, 1, 2, 1)}),
        (CACHE.replace("span=head", "span=call"), {"k": (1, 1, 1, 1), "v": (1, 1, 1, 1)}),
        (GIVEN, {"k": (2, 50, 2, 1), "v": (2, 1, 2, 32)}),
    ):
        codes, _ = drawn()
        inputs = Inputs(**codes, do=np.zeros_like(codes["q"]))
        case = handed(Case("mine/x@0", get_contract(contract).name, PROBLEM, inputs))
        assert {name: x.shape for name, x in case.inputs.scales.items()} == due, contract


def test_codes_for_another_contract_are_not_asked(tmp_path):
    path = tmp_path / "cache.safetensors"
    written(path)
    report = verify(Codes(), "article", inputs=[str(path)])
    assert report.exit_code == 5
    assert "operand_rule" in report.findings[0].reason


def test_a_kernel_without_gradients_has_a_contract_to_guess():
    found = guess(Codes(), cases=[CASE])
    assert set(found[0].outside) == {"o", "lse"}


def test_a_scale_for_each_token_is_refused_where_codes_are_summed():
    codes, scales = drawn()
    scales["v"] = np.ones((2, 50, 2, 1), np.float32)
    inputs = Inputs(**codes, do=np.zeros_like(codes["q"]), scales=scales)
    with pytest.raises(InputError, match="v_scale"):
        interpret(get_contract(CACHE), PROBLEM, inputs, Single())
    interpret(get_contract(GIVEN), PROBLEM, inputs, Single())


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("w", np.ones((1, 1, 1, 1))),
        ("k", np.ones(2)),
        ("k", np.ones((1, 7, 1, 1))),
        ("k", np.zeros((1, 1, 1, 1))),
        ("k", np.full((1, 1, 1, 1), np.nan)),
        ("k", np.full((1, 1, 1, 1), -1.0)),
    ],
)
def test_what_is_no_scale_is_refused(name, scale):
    codes, _ = drawn()
    with pytest.raises(InputError, match=name):
        Inputs(**codes, do=np.zeros_like(codes["q"]), scales={name: scale.astype(np.float32)})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("", "centre_k"),
        ('centre_k = "none"\ndelta = "stale"', "delta"),
        ('centre_k = "none"\nschedule = "windows"', "operand_rule"),
    ],
)
def test_what_codes_do_not_allow_is_refused_by_its_field(change, named):
    with pytest.raises(ContractError, match=named):
        read_contract(f'format = 1\nbase = "article"\noperand_rule = "given"\n{change}\n')
