"""Patterns: where failed elements lie and what stands there, of planted ones."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.checks.hull import hull
from dmverify.conformance.report.phrases import in_words, what, where
from dmverify.conformance.verdict import Verdict
from dmverify.spec.enclosure.bands import exact_band

SHAPE = (2, 160, 4, 32)  # of O
DUE = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
LSE = DUE[..., 0].swapaxes(1, 2).copy()


def found(got, due=DUE, *, output="o", room=1e-4):
    band = exact_band(due)
    some = np.full(due.shape, room)
    wide = replace(band, lo=band.lo - room, hi=band.hi + room, below=some, above=some)
    finding = judge_band(output, "c@0", np.asarray(got, np.float32), wide, scale=0.125)
    assert finding.verdict is Verdict.FAILS
    return finding


def said(got, due=DUE, **named):
    return what(found(got, due, **named).pattern)


def planted(rows=slice(None), heads=slice(None), channels=slice(None)):
    flags = np.zeros(SHAPE, bool)
    flags[1:, rows, heads, channels] = True
    return flags


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (planted(), "all in batch 1 (the last); every query, head and channel"),
        (
            planted(slice(64, 128), slice(1, 3)),
            "batch 1 (the last), queries 64 to 127 (the second 64), heads 1 to 2; every channel",
        ),
        (planted(slice(128, 160)), "queries 128 to 159 (the third and last 64); every head and"),
        (planted(slice(64, 127)), "queries 64 to 126; every"),
        (planted(3, 2, 5), "1 of 40,960 elements of o; all in batch 1 (the last), query 3, head 2"),
        (planted(slice(0, 160, 8)), "every eighth of the queries 0 to 152"),
        (planted(heads=slice(0, 4, 3)), "heads 0 and 3"),
        (planted([1, 2, 7]), "3 of the queries 1 to 7"),
        (np.ones(SHAPE, bool), "all 40,960 elements of o"),
    ],
)
def test_where(flags, words):
    assert words in where(hull("o", flags))


def test_holes_are_told():
    flags = planted(slice(0, 2))
    flags[1, 0, 0] = False
    assert "(88 % of the elements there)" in where(hull("o", flags))


def test_axes_without_names_and_sums_are_told():
    assert "axis 1 2" in where(hull("dump of s", np.eye(4, dtype=bool)[2:3]))
    assert "sums of dk, product; all in channel 5" in where(
        hull("sum of dk, product", np.arange(8)[None, None] == 5)
    )


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (DUE * 2, "2 times what is due"),
        (DUE * -1, "what is due with the other sign"),
        (DUE * 0.125, "0.125 times what is due (the softmax scale)"),
        (DUE * 448, "448 times what is due (448)"),
        (DUE * 0, "0 where other numbers are due"),
        (DUE * np.nan, "NaN where numbers are due"),
        (np.full(SHAPE, np.inf), "infinity where finite numbers are due"),
        (np.roll(DUE, 1, axis=1), "what is due of the query before"),
        (np.roll(DUE, -64, axis=1), "what is due of the query 64 after"),
        (np.roll(DUE, 1, axis=2), "what is due of the head before"),
        (np.roll(DUE, 1, axis=0), "what is due of the batch before"),
        (DUE * np.linspace(2, 5, 160)[:, None, None], "a factor that each row has for itself"),
        (DUE * np.linspace(2, 5, 4)[:, None], "a factor that each head has for itself"),
        (DUE * np.linspace(0.5, 0.7, 32), "too small in magnitude, off by"),
        (DUE * np.linspace(1.5, 1.7, 32), "too large in magnitude, off by"),
        (DUE + np.resize([0.1, -0.1], SHAPE), "too large and too small, off by 10 %"),
    ],
)
def test_what(got, words):
    assert words in said(got)


def test_a_part_of_the_elements_is_told_as_a_part():
    got = DUE * 2
    got[0] = np.nan
    assert said(got) == "NaN where numbers are due (50 % of them), 2 times what is due"


def test_addends_of_lse():
    assert said(LSE + 8 * np.log(2), LSE, output="lse").startswith("what is due plus 5.55 (8 ln(2)")
    assert said(LSE - 1.5, LSE, output="lse") == "what is due minus 1.5"


def test_noise_has_no_traits():
    noise = np.random.default_rng(2).standard_normal(SHAPE)
    pattern = found(noise).pattern
    assert pattern.traits == ()
    assert 1.2 < pattern.error < 1.6  # of two independent tensors: the square root of 2


def test_a_nan_is_told_in_words_and_has_no_range():
    got = DUE.copy()
    got[1, 2, 3, 4] = np.nan
    worst = found(got).worst
    assert "got NaN (0x7fc0) where a number is due" in str(worst)
    assert worst.allowed.startswith("[")
    due = DUE.copy()
    due[1, 2, 3, 4] = np.nan
    worst = found(DUE, due).worst
    assert str(worst) == f"o[1, 2, 3, 4]: got {worst.got:.9g} ({worst.got_hex}) where NaN is due"
    assert worst.allowed == ""
    assert in_words(found(DUE, due).pattern).endswith("numbers where NaN is due")


def test_what_conforms_has_no_pattern():
    assert judge_band("o", "c@0", DUE, exact_band(DUE)).pattern is None


def test_what_is_looked_at_of_a_large_tensor_is_spread_over_all_of_it():
    due = np.random.default_rng(3).standard_normal((1, 2048, 8, 64)).astype(np.float32)
    got = due * 2
    got[..., 1:] += np.float32(5)
    assert "times what is due" not in said(got, due)  # as it is in the first channel alone
    got = due * 2
    got[:, :, 4:] = np.nan
    assert said(got, due) == "NaN where numbers are due (50 % of them), 2 times what is due"
