"""Formats, stores and static scales of contracts: each changes numbers, and is told from another.

A kernel here is the steps in float32 under one contract, asked under another: what keeps the
contract conforms, and what differs in one field alone is rejected by the output that it changes.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch

from dmverify import verify
from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import ContractError, UnknownNameError
from dmverify.lab.formats import FEATURES, Steps
from dmverify.spec.arithmetic.floating import Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.operands import prepare
from dmverify.spec.attention.parts import bits_in_parts
from dmverify.spec.attention.run import call_exponents
from dmverify.spec.attention.stores import STORED, STORES
from dmverify.spec.case import Outputs
from dmverify.spec.contracts import get_contract, read_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16, E4M3, E5M2, FP16, INT8
from dmverify.spec.scaling import get_rule

SIZES = "batch=1,heads=2,kv_heads=1,queries=70,keys=80,head_dim=32"
CASE = f"gaussian/spread-2,{SIZES}@0"
ROWS = "article:centre_k=none"
WHOLE = f"{ROWS},q_block=whole,k_block=whole,v_block=whole,do_block=whole"
ONLINE = "flash-3-fp8:gradients=false,scale_span=head"
SAGE = f"{ONLINE},q_format=int8,k_format=int8,q_block=128,k_block=64,v_scales=channels,p_scale=448"
CACHE = f"{ONLINE},q_format=bf16,p=bf16"
PER_CALL = "cudnn-fp8:ds_format=e5m2,do_format=e5m2"


def allowed(contract, case_id=CASE):
    case = generate(case_id, contract=contract)
    return case, enclosure(get_contract(contract), case.problem, case.inputs)


def answer(contract, case):
    return interpret(get_contract(contract), case.problem, case.inputs, Single()).outputs


def rejected(bands, outputs):
    found = dict(outputs.items())
    return {name for name in bands if (compare(found[name], bands[name]).margin > 1).any()}


@pytest.mark.parametrize(
    ("contract", "other", "wrong"),
    [
        (f"{ROWS},ds_format=e5m2", ROWS, {"dq", "dk"}),
        (f"{ROWS},ds_format=e5m2,ds_scale=256", f"{ROWS},ds_scale=256", {"dq", "dk"}),
        (f"{ROWS},ds_scale=256", f"{ROWS},ds_scale=16", {"dq", "dk"}),
        (f"{ROWS},p_scale=448", ROWS, {"o", "dv"}),
        (f"{ROWS},p_scale=448", f"{ROWS},p_scale=256", {"o", "dv"}),
        (f"{ROWS},do_format=e5m2", ROWS, {"dq", "dk", "dv", "delta"}),
        (f"{ROWS},do_format=bf16", ROWS, {"dq", "dk", "dv", "delta"}),
        (f"{ROWS},k_format=int8", ROWS, {"o", "lse", "dq", "dk", "dv", "delta"}),
        ("article:k_format=int8", "article", {"o", "lse", "dq", "dk", "dv", "delta"}),
        (f"{ROWS},v_scales=channels", ROWS, {"o", "dq", "dk", "delta"}),
        (f"{ROWS},operand_rule=unit", ROWS, {"o", "lse", "dq", "dk", "dv", "delta"}),
        (f"{WHOLE},scale_span=call", WHOLE, {"o", "lse", "dq", "dk", "dv", "delta"}),
        (f"{ROWS},store=fp32", ROWS, {"o", "dq", "dk", "dv"}),
        (f"{ROWS},store=fp16", ROWS, {"o", "dq", "dk", "dv"}),
        (f"{ROWS},store=e4m3", ROWS, {"o", "dq", "dk", "dv"}),
        (ROWS, f"{ROWS},store=fp16", {"o", "dq", "dk", "dv"}),
        (SAGE, SAGE.replace("int8", "e4m3"), {"o", "lse"}),
        (SAGE, SAGE.replace("channels", "rows"), {"o"}),
        (SAGE, SAGE.replace("k_block=64", "k_block=whole"), {"lse"}),
        (CACHE, CACHE.replace("q_format=bf16,", ""), {"o", "lse"}),
        (f"{CACHE},v_format=bf16", CACHE, {"o"}),
        (f"{CACHE},operand_rule=unit", CACHE, {"o", "lse"}),
        (PER_CALL, "cudnn-fp8", {"dv"}),  # the others lie where some forward may leave them
    ],
)
def test_a_kernel_that_differs_in_one_field_is_rejected(contract, other, wrong):
    case, bands = allowed(contract, CASE.replace("batch=1", "batch=2"))
    assert rejected(bands, answer(contract, case)) == set()
    assert rejected(bands, answer(other, case)) >= wrong


def test_a_static_scale_may_be_taken_off_each_code_or_the_sum():
    """Three ways of a kernel's last product, in float32 outputs, where a unit in the last shows."""
    contract = f"{ROWS},store=fp32,p_scale=448"
    for keys in (1, 2, 80):
        case, bands = allowed(contract, CASE.replace("keys=80", f"keys={keys}"))
        problem, inputs = case.problem, case.inputs
        prepared = prepare(get_contract(contract), problem, inputs, cast=True)
        q, k, v = (np.float32(c * s) for c, s in (prepared.tensors[n] for n in ("q", "k", "v")))
        q, k, v = q[0, :, : problem.queries], k[0, 0, :keys], v[0, 0, :keys]
        s = q @ k.T * np.float32(problem.scale)
        s = np.where(problem.mask(), s, -np.inf)
        live = problem.mask().any(1)[:, None]
        top = np.where(live, s.max(-1, keepdims=True), 0)
        e = np.exp(s - top).astype(np.float32)
        codes = E4M3.round(e * np.float32(448))
        total = np.where(live, e.sum(-1, keepdims=True), 1)
        each = codes * np.float32(1 / 448)
        for o in (each @ v / total, codes @ v / np.float32(448) / total, codes / 448 @ v / total):
            got = o.astype(np.float32).swapaxes(0, 1)[None]
            assert (compare(got, bands["o"]).margin <= 1).all(), keys


@pytest.mark.parametrize(
    ("word", "theirs"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("fp16", np.float16),
        ("fp32", np.float32),
        ("e4m3", ml_dtypes.float8_e4m3fn),
    ],
)
def test_a_store_is_another_library_s_cast(word, theirs):
    case = generate(CASE, contract=f"{ROWS},store={word}")
    exact = interpret(
        get_contract(f"{ROWS},store=fp32"), case.problem, case.inputs, Single()
    ).outputs
    found = interpret(get_contract(case.contract), case.problem, case.inputs, Single()).outputs
    for name in set(STORED) & {"o", "dv"}:  # delta is matched: no gradient reads the stored O
        x = getattr(exact, name)
        x = np.clip(x, -448, 448) if word == "e4m3" else x
        due = x.astype(theirs).astype(np.float32)
        assert np.array_equal(getattr(found, name), due), name


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("ds=call-exponent", {"o", "dq", "dk", "dv", "ds"}),
        ("ds=call-exponent,store=bf16", {"ds"}),
        ("ds=call-exponent,store=e4m3", {"ds"}),
        ("ds=bf16", {"o", "dq", "dk", "dv"}),
    ],
)
def test_a_caller_chooses_powers_of_two_for_what_the_contract_says(words, chosen):
    contract, case = get_contract(f"cudnn-fp8:{words}"), generate(CASE, contract="cudnn-fp8")
    assert call_exponents(contract, case.problem, case.inputs).keys() == chosen


def test_an_output_that_no_caller_scales_is_rounded_as_it_is():
    """An infinity in V had O multiplied by 2^-120 before it was rounded to BF16."""
    case = generate(CASE, contract="bf16-math")
    v = case.inputs.v.copy()
    v[0, 0, 0, 0] = np.inf
    inputs = replace(case.inputs, v=v)
    outputs = [
        interpret(get_contract(name), case.problem, inputs, Single()).outputs
        for name in ("bf16-math", "bf16-math:ds=call-exponent")
    ]
    assert np.array_equal(outputs[0].o, outputs[1].o, equal_nan=True)


@pytest.mark.parametrize(
    ("word", "theirs"),
    [("fp16", np.float16), ("fp32", np.float32), ("e4m3", ml_dtypes.float8_e4m3fn)],
)
def test_bits_follow_the_store(word, theirs):
    """With every order stated the outputs are known bit for bit, whatever they are stored in."""
    case = generate(CASE, contract="bundled")
    wide, narrow, plain = (
        bits_in_parts(get_contract(name), case.problem, case.inputs)
        for name in ("bundled:store=fp32", f"bundled:store={word}", "bundled")
    )
    for name in STORED:  # delta is matched: no gradient reads the stored O
        x = getattr(wide, name)
        assert np.array_equal(getattr(plain, name), x.astype(ml_dtypes.bfloat16).astype("f"))
        clipped = np.clip(x, -448, 448) if word == "e4m3" else x
        assert np.array_equal(getattr(narrow, name), clipped.astype(theirs).astype(np.float32))
    assert np.array_equal(wide.lse, narrow.lse)


def test_integers_multiply_exactly():
    """S of INT8 codes is known to a rounding, where FP8 accumulators leave more open."""
    widths = []
    for contract in (SAGE, SAGE.replace("int8", "e4m3")):
        case = generate(CASE, contract=contract)
        band = enclosure(get_contract(contract), case.problem, case.inputs)["lse"]
        widths.append(float(np.max((band.hi - band.lo)[np.isfinite(band.lo)])))
    assert widths[0] < widths[1] / 4


def test_operands_are_in_their_formats():
    contract = f"{ROWS},q_format=int8,k_format=e5m2,v_format=bf16,do_format=e4m3"
    case = generate(CASE, contract=contract)
    prepared = prepare(get_contract(contract), case.problem, case.inputs, cast=True)
    for name, fmt in (("q", INT8), ("k", E5M2), ("v", BF16), ("do", E4M3)):
        codes, scale = prepared.tensors[name]
        assert np.array_equal(fmt.round(codes), codes), name
        assert (np.abs(codes).max() == fmt.max_finite) == (fmt is not BF16), name
        assert (scale == 1).all() == (fmt is BF16), name


def test_the_exponent_of_a_call_follows_the_format_of_ds():
    for contract, more in (("cudnn-fp8", 0), ("cudnn-fp8:ds_format=e5m2", 7)):
        case = generate(CASE, contract=contract)
        found = call_exponents(get_contract(contract), case.problem, case.inputs)
        plain = call_exponents(get_contract("cudnn-fp8"), case.problem, case.inputs)
        assert found["ds"] == plain["ds"] + more
        assert found["o"] == plain["o"]


def test_a_contract_without_gradients_has_two_outputs():
    case, bands = allowed(SAGE)
    assert set(bands) == {"o", "lse"}
    assert answer(SAGE, case).names == ("o", "lse")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ('q_format = "int4"', "q_format"),
        ('ds_format = "int8"', "ds_format"),
        ('store = "fp8"', "store"),
        ("p_scale = 17", "p_scale"),
        ("p_scale = 449", "p_scale"),
        ("p_scale = true", "p_scale"),
        ("p_scale = 2.0", "p_scale"),
        ("ds_scale = 3", "ds_scale"),
        ('gradients = "no"', "gradients"),
        ('v_scales = "columns"', "v_scales"),
        ('ds_format = "e5m2"\nds_cast = "zero-sum"', "ds_format"),
        ('ds_scale = 2\nds_cast = "zero-sum"', "ds_scale"),
        ('k_format = "bf16"', "centre_k"),
        ('schedule = "windows"\nq_format = "int8"\ncentre_k = "none"', "q_format"),
        ('schedule = "windows"\nds_format = "e5m2"', "ds_format"),
        ('schedule = "windows"\np_scale = 448', "p_scale"),
        ('cast = "blocks"\ncentre_k = "none"\nds_format = "e5m2"', "ds_format"),
    ],
)
def test_what_is_not_defined_is_refused_by_its_field(change, named):
    with pytest.raises((ContractError, UnknownNameError), match=named):
        read_contract(f'format = 1\nbase = "article"\n{change}\n')


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ('q_format = "int8"\nk_format = "int8"', "gradients"),
        ('q_format = "int8"\ngradients = false', "q_format"),
        ('v_format = "int8"\ngradients = false', "v_format"),
        ('v_scales = "channels"', "v_scales"),
        ('p_scale = "amax"', "p_scale"),
        ("ds_scale = 2", "ds_scale"),
        ('scale_span = "head"\nq_block = 128', "q_block"),
        ('scale_span = "head"\nv_block = 64\ngradients = false', "v_block"),
        ('scale_span = "group"\nk_block = 64\ngradients = false', "k_block"),
    ],
)
def test_what_codes_do_not_allow_is_refused_by_its_field(change, named):
    with pytest.raises((ContractError, UnknownNameError), match=named):
        read_contract(f'format = 1\nbase = "flash-3-fp8"\n{change}\n')


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("bf16", torch.bfloat16),
        ("fp16", torch.float16),
        ("fp32", torch.float32),
        ("e4m3", torch.float8_e4m3fn),
    ],
)
def test_tensors_of_torch_come_back_in_the_format_they_are_stored_in(word, dtype):
    class Tensors(Steps):
        contract = get_contract(f"article:store={word}").name
        contracts = (contract,)

        def backward(self, case):
            found = dict(super().backward(case).items())
            kept = {n: torch.tensor(x).to(dtype if n in STORED else torch.float32)
                    for n, x in found.items()}  # fmt: skip
            return Outputs(**kept)

    report = verify(Tensors(), cases=[CASE], checks=["o", "lse", "dq", "dk", "dv", "format"])
    assert report.ok, report.to_junit()
    assert all(report.margin[name] > 0 for name in ("o", "dq", "dk", "dv"))


OTHER_FORMATS = [name for name in FEATURES.values() if not get_contract(name).in_e4m3]
TAKE_NAN = [n for n in OTHER_FORMATS if not get_rule(get_contract(n).operand_rule).finite_only]


@pytest.mark.parametrize("contract", TAKE_NAN)
def test_nan_that_is_swallowed_fails_under_every_format(contract):
    """Whatever the format of V, a NaN in it is due in O; the kernel's V has 0 there."""

    name = get_contract(contract).name

    class Swallows(Steps):
        def backward(self, case):
            inputs = replace(case.inputs, v=np.nan_to_num(case.inputs.v))
            return super().backward(replace(case, inputs=inputs))

    for kernel, code in ((Steps, 0), (Swallows, 1)):
        asked = type("Asked", (kernel,), {"contract": name})()
        assert verify(asked, cases=["special/v-nan@0"], checks=["nan", "o"]).exit_code == code


def test_errors_are_counted_in_units_of_the_store():
    """The same error is 8 times as many units of FP16, which has three bits more than BF16."""
    found = []
    for word in ("bf16", "fp16"):
        name = get_contract(f"article:store={word}").name
        kernel = type("Kernel", (Steps,), {"contract": name, "contracts": (name,)})
        report = verify(kernel(), cases=[CASE], checks=["dq"])
        [row] = report.checks
        found.append(row.errors.ulp / row.errors.largest)
    assert found[1] / found[0] == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize("contract", FEATURES.values())
def test_the_simulation_declines_formats_that_it_does_not_compute(contract):
    case = generate(CASE, contract=get_contract(contract).name)
    assert isinstance(Simulation().supports(case), Unsupported)


@pytest.mark.parametrize(("contract", "asked"), [(ROWS, True), (SAGE, False), (CACHE, False)])
def test_instructions_are_told_where_all_products_are_of_fp8(contract, asked):
    name = get_contract(contract).name
    shown = {"contract": name, "contracts": (name,), "cubins": lambda self: None}
    report = verify(type("ShowsCode", (Steps,), shown)(), cases=[CASE], checks=["instructions"])
    [finding] = report.findings
    assert ("not all of FP8" in finding.reason) is not asked


def test_every_store_is_a_word_of_the_contract():
    for word in STORES:
        base = "cudnn-fp8" if word == "call-exponent" else "article"
        assert get_contract(f"{base}:store={word}").store == word
    assert STORES["fp16"].numbers(np.float32([1e6, 2.0**-26])).tolist() == [np.inf, 0]
    assert STORES["fp16"].fmt is FP16
