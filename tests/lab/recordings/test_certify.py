"""Builds by their machine code: what counts, what does not, and certificates that were changed."""

from functools import partial

import pytest

from dmverify.conformance.kernels import certify
from dmverify.conformance.kernels.certify import (
    FLAG_SETS,
    Certificate,
    all_variants,
    build_codes,
    label,
    load_certificate,
    machine_code,
    save_certificate,
)
from dmverify.errors import RecordingError
from dmverify.kernel.build import BuildVariant, build, source
from dmverify.kernel.errors import BuildError
from dmverify.lab.acceptance.seeded import SEEDED

pytest.importorskip("cuda.bindings.nvrtc", reason="extra 'gpu' is not installed")

KEY = BuildVariant("key", 64)


@pytest.fixture(scope="module")
def cubin():
    return build(KEY).cubin


def test_every_variant_of_a_call_is_certified():
    names = {label(variant) for variant in all_variants()}
    assert len(names) == len(all_variants())
    assert sum(variant.kernel == "query" for variant in all_variants()) == 3 * 2 * 6 * 2
    torch_free = certify.variants_of(FakeOptions(), 128)
    assert {label(variant) for variant in torch_free} <= names


class FakeOptions:
    def variant(self, kernel, head_dim, *, split=False):
        return BuildVariant(kernel, head_dim, causal=kernel != "quantise", split=split)


def test_debug_sections_do_not_count(cubin):
    with_lines = build(KEY, flags=("-lineinfo",)).cubin
    assert len(with_lines) > len(cubin)
    assert machine_code(with_lines) == machine_code(cubin)


@pytest.mark.parametrize("name", ["no-fmad", "approximate", "ptxas-O2"])
def test_arithmetic_flags_leave_the_code_of_every_kernel_alone(name):
    """Operations are named in PTX. Fast-math and ftz still reach comparisons: those have to run."""
    variants = [BuildVariant(kernel, 64) for kernel in ("forward", "query", "key")]
    wanted = build_codes(FLAG_SETS["default"], variants)
    assert build_codes(FLAG_SETS[name], variants) == wanted


def test_a_changed_instruction_counts(cubin):
    at = cubin.index(b".text.key") and _first_code_byte(cubin)
    damaged = cubin[:at] + bytes([cubin[at] ^ 1]) + cubin[at + 1 :]
    assert machine_code(damaged) != machine_code(cubin)


def _first_code_byte(cubin):
    content = next(c for name, c in certify.sections(cubin) if name.startswith(b".text."))
    return cubin.index(content)


@pytest.mark.parametrize("wrong", [b"", b"PTX", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + bytes(90)])
def test_what_is_no_cubin_is_refused(wrong):
    with pytest.raises(RecordingError):
        machine_code(wrong)


def test_a_seeded_fault_is_not_certified():
    sound, edits = BuildVariant("forward", 64), SEEDED["value-scale-dropped"]
    codes = build_codes(FLAG_SETS["default"], [sound])
    certificate = Certificate("s", "d", "v", {}, {"default": codes}, "b")
    assert certificate.standing(codes) == {label(sound): "default"}
    wrong = {label(sound): machine_code(build(sound, edits=edits).cubin)}
    assert certificate.standing(wrong) == {label(sound): ""}


def test_a_text_before_counts_while_no_default_build_has_other_code():
    def made(source, code, earlier=()):
        return Certificate(source, "d", "v", {}, {"default": {"x": code}}, "b", earlier)

    assert made("new", "0").after(made("old", "0", ("older",))).earlier == ("older", "old")
    assert made("new", "1").after(made("old", "0", ("older",))).earlier == ()
    assert made("same", "0").after(made("same", "0", ("older",))).earlier == ("older",)


@pytest.mark.parametrize("edits", SEEDED.values(), ids=SEEDED)
def test_every_seeded_fault_changes_machine_code(edits):
    changed = 0
    for kernel in certify.KERNELS:
        if source(kernel, edits=edits) != source(kernel):
            sound, faulty = (build(BuildVariant(kernel, 64), edits=e).cubin for e in ((), edits))
            changed += machine_code(sound) != machine_code(faulty)
    assert changed


def test_certificates_are_read_whole_and_unchanged(tmp_path):
    path = tmp_path / "certificate.json"
    certificate = Certificate("s", "d", "v", {"default": "n"}, {"default": {"x": "0"}}, "b", ("e",))
    save_certificate(certificate, path)
    assert load_certificate(path) == certificate
    text = path.read_text()
    for damaged in (text.replace('"v"', '"w"'), text[: len(text) // 2], "[]", "{}"):
        path.write_text(damaged)
        with pytest.raises(RecordingError):
            load_certificate(path)
    path.unlink()
    with pytest.raises(RecordingError, match="certify anew"):
        load_certificate(path)


def test_this_source_builds_to_certified_code():
    assert "have the machine code that gave the recorded bits" in certify.describe_build()


def test_a_build_that_nothing_knows_is_called_unknown(monkeypatch):
    faulty = partial(build, edits=SEEDED["value-scale-dropped"])
    monkeypatch.setattr(certify, "build", faulty)
    assert "no certificate knows" in certify.describe_build()


def test_a_machine_that_cannot_build_says_so(monkeypatch):
    monkeypatch.setattr(certify, "build", _cannot)
    assert "not built here" in certify.describe_build()


def _cannot(*_, **__):
    raise BuildError("no NVRTC", rule="r", fix="f")
