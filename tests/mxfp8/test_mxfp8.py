"""MXFP8 as a contract: a kernel of it conforms, each wrong version is rejected, steps are sound."""

import numpy as np
import pytest

from dmverify import verify
from dmverify.conformance.checks.bands import compare
from dmverify.conformance.families import generate
from dmverify.conformance.questions import list_asked
from dmverify.conformance.selection import select_pairs
from dmverify.conformance.verdict import Verdict
from dmverify.errors import ContractError, InputError
from dmverify.spec.arithmetic import Bits
from dmverify.spec.arithmetic.floating import Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import DELTAS, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.ledger.bounds.derived import is_derived
from tests.mxfp8.kernel import WRONG, Mx

MX = get_contract("mxfp8")
CHANNELS = "distinct-scales/channels,queries=96,keys=96@0"
TOPS = "distinct-scales/channel-tops,queries=96,keys=96@0"
CASES = (
    CHANNELS,
    TOPS,
    "distinct-scales/wide@0",
    "gaussian/spread-4,heads=4,kv_heads=2,queries=33,keys=65,head_dim=96@0",
    "lengths/q17-k129@0",
    "zero-blocks/everything@0",
    "tiny-amax/do-2^-133@0",
    "tiny-amax/far-keys-104@0",
    "outliers/channels-and-rows@0",
)
OUTPUTS = ("o", "lse", "dq", "dk", "dv", "delta")


def judged(kernel, cases):
    report = verify(kernel, cases=cases, checks=OUTPUTS)
    return {row.id for row in report.checks if row.verdict is not Verdict.CONFORMS}


def test_a_kernel_of_the_contract_conforms():
    assert judged(Mx(), CASES) == set()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_version_is_rejected(wrong):
    assert judged(Mx(wrong), (CHANNELS, TOPS)) & {"o", "dq"}


def test_where_the_scales_of_v_run_is_seen_in_o_alone():
    """V is cast twice; a kernel that takes one copy for both dots is wrong in one of them."""
    assert judged(Mx("shared-v"), (CHANNELS,)) == {"o"}
    assert "o" not in judged(Mx("tile-ds"), (CHANNELS,))


@pytest.mark.parametrize("delta", [delta for delta in DELTAS if delta != "associated"])
def test_every_delta_is_inside_its_enclosure(delta):
    contract = get_contract("mxfp8", delta=delta)
    for case_id in (CHANNELS, TOPS):
        case = generate(case_id, contract=contract.name)
        bands = enclosure(contract, case.problem, case.inputs)
        run = interpret(contract, case.problem, case.inputs, Single()).outputs
        for name, x in run.items():
            assert (compare(x, bands[name]).margin <= 1).all(), (case_id, name)


def test_blocks_of_fp32_scales_are_a_contract_too():
    """The axis and the scale's format are two decisions."""
    contract = get_contract("mxfp8:operand_rule=amax,p_group=128,tile=128,saturate=false")
    case = generate(CHANNELS, contract=contract.name)
    bands = enclosure(contract, case.problem, case.inputs)
    run = interpret(contract, case.problem, case.inputs, Single()).outputs
    assert all((compare(x, bands[name]).margin <= 1).all() for name, x in run.items())
    other = enclosure(MX, case.problem, case.inputs)
    assert (compare(run.o, other["o"]).margin > 1).any()


def test_gradients_below_the_powers_of_other_contracts():
    """dS of 2^-110 has scales down to 2^-127, where the windows' powers of two end at 2^-100."""
    case = generate("gaussian/spread-1,heads=2,kv_heads=1,queries=40,keys=40,head_dim=32@0")
    tiny = {
        name: x * np.float32(2.0**-110 if name == "do" else 1) for name, x in case.inputs.items()
    }
    inputs = Inputs(**tiny)
    run = interpret(MX, case.problem, inputs, Single()).values
    plain = interpret(MX, case.problem, case.inputs, Single()).values
    error = np.abs(run["dq"] * 2.0**110 - plain["dq"]).max() / np.abs(plain["dq"]).max()
    assert error < 0.05


def test_the_steps_of_no_other_contract_are_what_mx_takes():
    case = generate(CHANNELS, contract="mxfp8")
    got = Mx().backward(case)
    for name in ("article", "upstream", "article:operand_rule=amax-e8m0,centre_k=none"):
        bands = enclosure(get_contract(name), case.problem, case.inputs)
        assert any((compare(x, bands[n]).margin > 1).any() for n, x in got.items()), name


@pytest.mark.parametrize(
    "change", ["ds_cast=zero-sum,tile=64", "centre_k=mean", "scale_span=call", "cast=rows"]
)
def test_what_blocks_exclude(change):
    with pytest.raises(ContractError):
        get_contract(f"mxfp8:{change}")


def test_what_has_no_bound_or_bits_says_so():
    case = generate(TOPS, contract="mxfp8")
    assert not is_derived(MX)
    with pytest.raises(ContractError, match="every order"):
        interpret(MX, case.problem, case.inputs, Bits())
    wild = {name: x.copy() for name, x in case.inputs.items()}
    wild["v"][0, 0, 0, 0] = np.inf
    with pytest.raises(InputError, match="finite"):
        enclosure(MX, case.problem, Inputs(**wild))


def test_levels_ask_blocks_along_channels_of_such_contracts_alone():
    mine, plain = (dict(select_pairs("smoke", (name,), seed=0)) for name in ("mxfp8", "article"))
    assert mine.keys() - plain.keys() == {
        "distinct-scales/channels@0",
        "distinct-scales/channel-tops@0",
    }
    assert plain.keys() <= mine.keys()
    assert select_pairs("smoke", ("mxfp8", "article"), seed=0)[-1][0] in plain
    assert [row[0] for row in list_asked(contract="mxfp8")] == list(mine)
