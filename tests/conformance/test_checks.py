"""Checks: each wrong kernel is rejected by the check that names it, and each check can fail."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.adapter import Forward
from dmverify.conformance.checks import CHECKS, get_check
from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.checks.margins import compare, hex_code
from dmverify.conformance.events import ignore
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.errors import UnknownNameError
from dmverify.lab.mutants import MUTANTS, numeric
from dmverify.lab.mutants.simulated import asked
from dmverify.spec.enclosure.bands import exact_band
from dmverify.spec.margin import margin_of


def verdicts(kernel, case):
    findings = run(kernel, [case], checks=CHECKS.values(), emit=ignore)
    return {finding.check: finding.verdict for finding in findings}


@pytest.mark.parametrize("name", numeric.MUTATIONS)
def test_a_wrong_kernel_is_rejected_by_the_check_that_names_it(name):
    check, (kernel, cases) = MUTANTS[name].check, asked(name)
    for case in cases:
        assert verdicts(kernel, case)[check] is Verdict.FAILS
        sound = verdicts(Simulation(), case)
        assert set(sound.values()) <= {Verdict.CONFORMS, Verdict.UNSUPPORTED}
        assert sound[check] is Verdict.CONFORMS


@pytest.mark.parametrize("mode", ["renormalized", "shifted"])
def test_stale_is_rejected_where_a_better_delta_is_promised(mode):
    case = generate("gaussian/spread-2@0", contract=f"article:delta={mode}")
    found = verdicts(numeric.Stale(), case)
    assert {"delta", "row-sum", "ledger"} <= {n for n, v in found.items() if v is Verdict.FAILS}


def evidence(case, kernel):
    forward, outputs = kernel.forward(case), kernel.backward(case)
    return Evidence(case, forward, outputs, kernel.internals(case))


RESIDUALS = ("row-sum", "row-sum-cast", "ledger")


@pytest.mark.parametrize("keys", [slice(None), slice(0, 1), slice(-1, None)])
def test_a_nan_in_the_dump_hides_nothing(keys):
    """Everywhere, or one a row, before or behind the causal mask, over a wrong dS."""
    case = generate("gaussian/spread-2@0", contract="article")
    found = evidence(case, Simulation())
    ds = found.internals.ds * 3
    ds[..., keys] = np.nan
    lied = replace(found, internals=replace(found.internals, ds=ds))
    for name in RESIDUALS:
        assert CHECKS[name].judge(name, found).verdict is Verdict.CONFORMS
        finding = CHECKS[name].judge(name, lied)
        assert finding.verdict is Verdict.FAILS
        assert "the dump is not finite where the outputs are" in finding.reason
        assert finding.open == finding.judged


@pytest.mark.parametrize("name", RESIDUALS)
def test_a_row_that_sees_no_key_may_have_an_operand_that_is_not_finite(name):
    """Its outputs are finite, whatever the infinity of its block makes of its codes."""
    case = generate("special/q-inf,queries=122,keys=121,causal=1@0", contract="bundled")
    found = evidence(case, Emulator())
    assert not np.isfinite(found.internals.q[0, :, 0]).all()
    assert np.isfinite(found.outputs.o[0, 0]).all()
    assert CHECKS[name].judge(name, found).verdict is Verdict.CONFORMS
    o32 = found.internals.o32.copy()
    o32[0, 0, 0, 0] = np.nan  # what the row did compute may not hide behind it
    lied = replace(found, internals=replace(found.internals, o32=o32))
    assert CHECKS[name].judge(name, lied).verdict is Verdict.FAILS


def test_a_ledger_that_does_not_add_up_is_our_error():
    case = generate("gaussian/spread-2@0", contract="article")
    found = evidence(case, Simulation())
    assert found.ledger.closes.all()
    found.__dict__["ledger"] = replace(found.ledger, closes=~found.ledger.closes)
    assert CHECKS["ledger"].judge("ledger", found).verdict is Verdict.ERROR


def test_an_open_element_is_counted_and_all_open_is_no_verdict():
    exact = exact_band(np.array([1.0, 2.0], np.float32))
    got = np.array([1.0, np.nan], np.float32)
    either = np.array([False, True])
    any_number = np.where(either, np.inf, exact.hi)
    half = judge_band("o", "a/b@0", got, replace(exact, may_nan=either, hi=any_number))
    assert (half.verdict, half.judged, half.open) == (Verdict.CONFORMS, 2, 1)
    whole = judge_band(
        "o", "a/b@0", got, replace(exact, may_nan=~exact.may_nan, hi=exact.hi + np.inf)
    )
    assert (whole.verdict, whole.open) == (Verdict.INDETERMINATE, 2)
    assert "undetermined" in whole.reason


def test_a_dump_of_another_run_is_noticed():
    case = generate("gaussian/spread-2@0", contract="article")
    other = generate("gaussian/spread-2@1", contract="article")
    found = replace(evidence(case, Simulation()), internals=Simulation().internals(other))
    finding = CHECKS["dump"].judge("dump", found)
    assert finding.verdict is Verdict.FAILS
    assert "the dump" in finding.reason


@pytest.mark.parametrize("bit", [0x00010000, 0x80000000])
def test_one_bit_fails_where_the_bits_are_known(bit):
    case = generate("lengths/q129-k17@0", contract="bundled")
    found = evidence(case, Emulator())
    check = CHECKS["bits"]
    assert check.judge("bits", found).verdict is Verdict.CONFORMS
    o = found.outputs.o.copy()
    o.view(np.uint32)[0, 3, 0, 7] ^= np.uint32(bit)  # row 3 is dead: the sign of a zero, or 2^-133
    finding = check.judge("bits", replace(found, outputs=replace(found.outputs, o=o)))
    assert finding.verdict is Verdict.FAILS
    assert (finding.worst.output, finding.worst.index) == ("o", (0, 3, 0, 7))


def test_repeated_bits_include_the_sign_of_zero():
    case = generate("lengths/q129-k17@0", contract="article")
    found = evidence(case, Simulation())
    flipped = Forward(-found.forward.o, found.forward.lse)
    check = CHECKS["repeat"]
    assert check.judge("repeat", found).verdict is Verdict.CONFORMS
    assert check.judge("repeat", replace(found, forward=flipped)).verdict is Verdict.FAILS


def test_margins():
    assert margin_of([0.0, -1.0, 1.0, -1.0], [0.0, 0.0, np.nan, 4.0]).tolist() == [
        0.0, np.inf, np.inf, 0.25,
    ]  # fmt: skip
    band = exact_band(np.array([1.0, 0.0, np.nan, -np.inf], np.float32))
    same = compare(np.array([1.0, -0.0, np.nan, -np.inf], np.float32), band)
    assert same.margin.tolist() == [0, 0, 0, 0]
    other = compare(np.array([1.5, np.nan, 0.0, np.inf], np.float32), band)
    assert (other.margin == np.inf).all()


def test_the_worst_element_says_what_and_where():
    band = exact_band(np.array([[1.0, 2.0]], np.float32))
    finding = judge_band("dk", "a/b@0", np.array([[1.0, 2.0078125]], np.float32), band)
    assert finding.worst.index == (0, 1)
    assert str(finding.worst).startswith(
        "dk[0, 1]: got 2.0078125 (0x40008000), expected 2 (0x4000)"
    )
    assert hex_code(np.float32(-1)) == "0xbf80"


def test_every_row_of_the_table_is_complete():
    for name, check in CHECKS.items():
        assert name == check.id
        assert all((check.section, check.bound, check.targets))
        assert check.needs in ("", "internals", "delta", "bits", "kernel", "calls")
        __import__(check.section)
    with pytest.raises(UnknownNameError, match="did you mean"):
        get_check("row-sums")
