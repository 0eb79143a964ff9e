"""Ids mean the same bits everywhere: pinned hashes, and the arithmetic that the draws rest on."""

from __future__ import annotations

import hashlib

import mpmath
import numpy as np
import pytest

from dmverify.conformance.families import FAMILIES, draws, generate
from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import cos_turns, exp2, ln
from dmverify.spec.case import Case


def digest(case: Case) -> str:
    """SHA-256 of the BF16 codes of q, k, v, do, in that order."""
    h = hashlib.sha256()
    for _, x in case.inputs.items():
        h.update((np.ascontiguousarray(x).view(np.uint32) >> 16).astype("<u2").tobytes())
    return h.hexdigest()


PINNED = {
    "gaussian/spread-64@1": "9a2cc209451eb13b67dfc3a9a85bd571bb3bb9d9edf7da3c4b7008819e6bc83e",
    "constant-v/large@1": "6dc09acbb3e367336ca695b25110f5c06fe074d40109ad828e14cb99f45b0c4f",
    "positive-v/short@1": "d341ec99e108b182ede399800ea0d587f230df9a4b31b1728c14e9ea97eceb36",
    "offset/kv-64@1": "266fdd76415b6910fe1a40b0d68b16ec48660e1710aaa0f57e2299024f333d33",
    "rows/diagonal@1": "62effb5281af627d380cc93713c6e27faae4f89398e6607d36f6717b6f3a99d3",
    "logit-size/tiny-scale@1": "ddd74c573877a95c6ff0f10bc3adac86e2bef2b996ac158334d1cfa0ba7e8ba2",
    "zero-blocks/single-do@1": "a7e69f62535daffbef8643ae86a9b8be3425d440fbcc4fcd78525cb0d4189cbd",
    "tiny-amax/far-keys-150@1": "88b6ea8b85eab60b08c28046190a581ef3b0091100697358892ec990c308cdf4",
    "distinct-scales/wide@1": "128628a0a3a37b6091e2883a46665d868fef5972a95a851b9d1cdd0093ada2c4",
    "tagged/more-keys@1": "e5e4af4dc03afafebd246ea4b50ebfab85f5c85e6eb54e28f2559cda10586506",
    "rounding/all-codes@1": "7f485d75b19eb7c354f1af6ec40eba6cd560e26f246ebf02e116347622870af1",
    "exponentials/tile@1": "ed81ca1d43c0b22256c3eda77a844f6adb8b5fa4ba6102dc127f04a04b5542b6",
    "deciding/spikes@1": "4b3c8230b1e09d9bd34d9d9984d45dae306f9583b4fadbc44204b9d74d11ac55",
    "cast-ties/p@1": "1786e492b3f486d7ade1b76fd2b6f2abbd195a9e9fee091653a83550642b88fc",
    "cast-ties/ds@1": "a985ad46bcb92019f2c7e53f3136f633fc726aaa15fdb4f18f4fc9a862e79894",
    "rounding/quotient-near-ties@1": (
        "24a07e9c88dce6212120488960e7fe211f5037236ecf5de32381d842b58ef2a9"
    ),
    "outliers/one-element@1": "a078f063c726a7b3c70c66e0079dcb9405b0165fe17a0de5c016755f0d7d64b4",
    "special/around@1": "870d69d9104d8802f65fb3aa34b80daa03a5dc785f484e0b9f45daf38b0770c7",
    "lengths/two-batches@1": "b216871204ee43a983e89c872dc0d912e96c5a550f27ec19c7f20489e6172aa0",
    "long/five-batches-full@1": "30ca59d3fc48075c33ef62b2e219eea98c7a27de5c92c153a686f4a4ca312855",
    "counts/decode-q3-k1089-group-5@1": (
        "9b3db515efa18ce41c21ac79c2698a0d38788a17b6844f6243f89c428f10328c"
    ),
    "layout/misaligned@1": "fd3404ef9551027a641b34b6777fcb1d1a31124df8acaf112f0c81ddc3e8e2f2",
    "duplicates/keys-only@1": "d609b837d24cded456765a196052818b3fa385671338c1a61030fbb794044a68",
    "integers/two-blocks@1": "b655012ec4a54c121fcaf2ff0e94ea3356a45760c330f08bd5f00560993c95f5",
    "permutation/queries@1": "d8dafc5a479a7ba70ad067fbfd44820dbaeba07ad5e774666a649539eb69cadc",
    "future/larger@1": "7c92254ff85bafb601387d72e3085d064a687107a9ad210d8208f4f1f06f0eb9",
    "cancelling-delta/causal@1": "50e0300b5e6efb73df9eccb18881885f92e2490ef381e05ee0762ca88b0ad900",
    "attained/prob@0": "1899ef4d50776f83de26c80468e3e1ab732933596e3fc1d56cbdbea01d84ac18",
    "attained/cast@0": "32076c7c290d064a1ffb0db701cf9b308350cae79908da83468e8898f2bdd04d",
    "attained/one-large@38": "2925d1836082631ffb269a17ef7f8c6d0f614afdce8dc6ab7731d1b05bbcd509",
    "witnesses/codes@1": "5bbc7e7ed17d5f09801bffb65995799e7a3aaa49de3c6867860e15470ab4038a",
    "witnesses/magnitudes@1": "798a751ed5a1f702dfbf4b7c8918005d2cab467e68fee44b134b1bff13fd0ff6",
    "rows/diagonal@0": "a15ea53fd10f70a6ae657a970180756b8f1d28c18df15611b00be9fcb0d4557b",
    "tiny-amax/k-2^-120@2": "162ce6b27575c7a7d399c119463359fc10bf44d47ed18c7c4e5c9a2820090bd9",
    "gaussian/spread-4,heads=4,keys=512@5": (
        "18945070069de28f875c8cb6704b849b93552c6bc54e971848a3d1467d5382f8"
    ),
    "special/q-nan@0": "6f16cd57cfc56aefd4730673865587cb64dbc4a8ff41bce8f07e1aca5d977ee5",
}


@pytest.mark.parametrize("case_id", list(PINNED))
def test_pinned_cases_regenerate_in_every_bit(case_id):
    assert digest(generate(case_id)) == PINNED[case_id]


def test_one_case_of_every_family_is_pinned():
    pinned = {case_id.split("/")[0] for case_id in PINNED}
    lacking = [f"{f.name}/{next(iter(f.variants))}@1" for f in FAMILIES.values()]
    lines = {text: digest(generate(text)) for text in lacking if text.split("/")[0] not in pinned}
    assert lines == {}, "lines for PINNED"
    assert pinned == set(FAMILIES)


def test_seeds_families_and_streams_differ_and_nothing_else_matters():
    case = generate("gaussian/spread-1@3")
    assert digest(case) == digest(generate("gaussian/spread-1@3", contract="article"))
    assert digest(case) != digest(generate("gaussian/spread-1@4"))
    raw = {
        Draws(family, seed).raw(stream, 4).tobytes()
        for family in ("a", "b")
        for seed in (0, 1)
        for stream in ("q", "k")
    }
    assert len(raw) == 8


def test_a_change_of_one_bit_changes_the_digest():
    case = generate("gaussian/spread-1@3")
    before = digest(case)
    case.inputs.k.view(np.uint32)[0, 0, 0, 0] ^= 1 << 16
    assert digest(case) != before


def test_more_of_a_stream_starts_with_the_same_numbers():
    a = Draws("a", 0)
    assert a.raw("q", 9)[:5].tolist() == a.raw("q", 5).tolist()
    assert a.normal("q", (9,))[:5].tolist() == a.normal("q", (5,)).tolist()


def test_normal_numbers_do_not_depend_on_those_that_are_kept(monkeypatch):
    monkeypatch.setattr(draws, "_kept", {})
    due = Draws("a", 0).normal("q", (4, 9)).tolist()
    Draws("a", 0).normal("q", (3,))[:] = 0  # the caller's own
    assert Draws("a", 0).normal("q", (4, 9)).tolist() == due
    others = [Draws("b", seed).normal("q", (5,)).tolist() for seed in range(draws.STREAMS + 3)]
    assert len(draws._kept) == draws.STREAMS
    assert others[0] == Draws("b", 0).normal("q", (2, 5))[0].tolist()
    monkeypatch.setattr(draws, "KEPT", 8)  # more than that is not kept
    assert Draws("a", 0).normal("q", (4, 9)).tolist() == due


@pytest.mark.parametrize(
    ("ours", "exact", "low", "high"),
    [
        (ln, mpmath.log, 2.0**-53, 1.0),
        (cos_turns, lambda t: mpmath.cos(2 * mpmath.pi * t), 0.0, 1.0),
        (exp2, lambda x: mpmath.power(2, x), -30.0, 30.0),
    ],
)
def test_elementary_functions_are_near_the_exact_ones(ours, exact, low, high):
    edges = [low, np.nextafter(high, low), (low + high) / 2, (low + high) / 4, (low + high) / 8]
    x = np.array(edges + np.random.default_rng(0).uniform(low, high, 400).tolist())
    with mpmath.workdps(40):
        for argument, value in zip(x.tolist(), ours(x).tolist(), strict=True):
            true = exact(mpmath.mpf(argument))
            assert abs(value - true) <= 2.0**-50 * max(abs(true), 2.0**-1), argument


def test_distributions():
    a = Draws("a", 0)
    normal, uniform = a.normal("q", (200_000,)), a.uniform("k", (200_000,))
    moments = [normal.mean(), (normal**2).mean(), (normal**3).mean(), (normal**4).mean()]
    assert np.abs(np.array(moments) - [0, 1, 0, 3]).max() < 0.05
    assert 4 < np.abs(normal).max() < 6
    assert 0 <= uniform.min() < 1e-4 < 1 - 1e-4 < uniform.max() < 1
    assert set(a.signs("s", (100,)).tolist()) == {-1.0, 1.0}
    assert set(a.integers("i", (1000,), low=2, high=5).tolist()) == {2.0, 3.0, 4.0}
    assert sorted(a.order("o", 50).tolist()) == list(range(50))
    assert a.normal("q", (0, 3)).shape == (0, 3)
