"""The probes' texts and operands, as far as no GPU is needed."""

import numpy as np
import pytest

from dmverify.errors import InputError
from dmverify.lab.probes.operands import CODES, FAMILIES, Stream, operands
from dmverify.lab.probes.texts import functions_text
from dmverify.lab.probes.wgmma_source import Form, source
from dmverify.spec.formats import E4M3, E5M2


def test_the_stream_is_splitmix64():
    """First outputs for state 0, from the published algorithm."""
    stream = Stream("")
    assert stream.state == 0
    assert [hex(v) for v in stream.raw(2).tolist()] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4"]


def test_a_stream_continues():
    whole, parts = Stream("x").raw(6), Stream("x")
    assert np.array_equal(whole, np.concatenate([parts.raw(2), parts.raw(4)]))


@pytest.mark.parametrize("kind", CODES)
def test_code_spaces_are_those_of_the_formats(kind):
    fmt = {"e4m3": E4M3, "e5m2": E5M2}[kind]
    codes = np.arange(128, dtype=np.uint8)
    finite = np.isfinite(fmt.decode(codes))
    assert codes[finite].max() == CODES[kind].largest
    assert tuple(codes[~finite]) == CODES[kind].specials


@pytest.mark.parametrize("family", FAMILIES)
def test_families_differ_by_seed_and_have_their_shape(family):
    made = [operands(family, "e4m3", b_type="e5m2", shape=(2, 16, 64), seed=s) for s in (0, 0, 1)]
    assert made[0].a.shape == (2, 64, 64)
    assert made[0].b.shape == (2, 16, 64)
    assert made[0].c.shape == (2, 64, 16)
    assert np.array_equal(made[0].b, made[1].b)
    assert not np.array_equal(made[0].b, made[2].b)


@pytest.mark.parametrize("shape", [{"n": 12}, {"n": 264}, {"n": 0}, {"k": 48}, {"k": 288}])
def test_impossible_forms_are_typed_errors(shape):
    with pytest.raises(InputError, match="multiple"):
        Form(**shape)


def test_sources_name_their_instruction():
    text = source(Form(n=256, a_type="e5m2", a_from="registers", scale_a=-1))
    assert "m64n256k32.f32.e5m2.e4m3" in text
    assert "p, -1, 1;" in text
    assert text.count('"+f"') == 128


@pytest.mark.parametrize(
    "form",
    [None, Form(), Form(n=256, a_from="registers"), Form(accumulator="f16", k=64, commit="each")],
)
def test_texts_compile(form):
    pytest.importorskip("cuda.core", reason="extra 'gpu' is not installed")
    from dmverify.lab.probes.device import compile_text

    build = compile_text(functions_text() if form is None else source(form))
    assert len(build.code.code) > 1000


def test_a_wrong_text_does_not_compile():
    pytest.importorskip("cuda.core", reason="extra 'gpu' is not installed")
    from dmverify.lab.probes.device import compile_text

    with pytest.raises(Exception, match="error"):
        compile_text(source(Form()).replace("u64 db", "u65 db"))
