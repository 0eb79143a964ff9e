"""Recorded outputs: made, judged, damaged. The specification stands in for the kernel here."""

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.checks import get_check
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.load import load
from dmverify.conformance.questions import list_asked, read_asked, write_asked
from dmverify.conformance.recorded_answers import judge_recording
from dmverify.conformance.specification import specification_hash
from dmverify.conformance.three_steps import run_cases
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError, NothingRanError, RecordingError, UnknownNameError
from dmverify.lab.acceptance.plan import combinations
from dmverify.lab.recordings import (
    digest_of,
    judge_shipped,
    load_digests,
    save_digests,
    tail,
)
from dmverify.lab.recordings.digests import shortened
from dmverify.lab.recordings.make import record
from dmverify.lab.recordings.shipped import differing, expected
from dmverify.lab.recordings.tail import NAMES, cut
from dmverify.spec.recording import Unanswered, canonical

SHORT = "lengths/n17,heads=2@0"
NAN = "special/v-nan,queries=40,keys=40@0"
LONG = "gaussian/spread-4,heads=4,kv_heads=2,queries=384,keys=450@0"
ASKED = ((SHORT, "bundled"), (NAN, "bundled:delta=stale"), ("lengths/n1@0", "bundled"))


class OneBit(Emulator):
    """The last bit of one number of one output is flipped."""

    def __init__(self, name):
        self._name = name

    def backward(self, case):
        outputs = super().backward(case)
        array = getattr(outputs, self._name).copy()
        array.view(np.uint32).flat[-1] ^= 1 << 16
        return replace(outputs, **{self._name: array})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "data"
    record(Emulator(), folder, asked=ASKED, long=((LONG, "bundled", (1, 2)),))
    return folder


def test_what_was_recorded_conforms(made):
    findings = judge_shipped(level="full", folder=made, emit=ignore)
    checks = [finding.check for finding in findings]
    assert {"recorded-answers", "recorded-digests", "recorded-tails"} == set(checks)
    assert checks.count("recorded-digests") == len(ASKED)
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}
    assert all(finding.judged for finding in findings)


@pytest.mark.parametrize("name", ["o", "lse", "dq", "dk", "dv", "delta"])
def test_one_flipped_bit_is_seen(tmp_path, name):
    record(OneBit(name), tmp_path / "d", asked=ASKED[:1])
    digests = load_digests(tmp_path / "d" / "hashes")
    shutil.copytree(tmp_path / "d" / "answers", tmp_path / "d" / "tails")
    assert digests.cases
    recording = run_cases(OneBit(name), ASKED[:1])
    (bits,) = judge_recording(recording, checks=[get_check("bits")], emit=ignore)
    assert bits.verdict is Verdict.FAILS
    assert bits.worst.output == name
    good = expected(generate(SHORT, contract="bundled"))
    assert differing(getattr(recording.answers[ASKED[0]], name), getattr(good, name)) == 1
    assert digests.cases[SHORT, "bundled"][name] != shortened(digest_of(good))[name]


def test_a_wrong_tail_and_a_wrong_hash_are_seen(tmp_path):
    record(OneBit("dq"), tmp_path / "d", asked=ASKED[:1], long=((LONG, "bundled", (3,)),))
    findings = judge_shipped(level="full", folder=tmp_path / "d", emit=ignore)
    assert [finding.verdict for finding in findings] == [Verdict.FAILS] * 3
    assert all("dq" in finding.reason for finding in findings)


def test_the_end_of_a_long_case_has_the_bits_of_the_whole():
    for contract in ("bundled", "bundled:delta=associated,ds_cast=zero-sum"):
        for fields in ("", ",causal=0"):
            case = generate(LONG.replace("@", f"{fields}@"), contract=contract)
            whole = cut(expected(case), heads=(1, 2))
            short = expected(tail(case, heads=(1, 2)))
            assert not any(differing(getattr(whole, n), getattr(short, n)) for n in NAMES)


def test_a_long_case_is_cut_at_a_block():
    with pytest.raises(InputError, match="multiple of 128"):
        tail(generate(SHORT), heads=(0,))


def test_hashes_know_the_sign_of_zero_and_no_payload_of_nan():
    x = np.array([0.0, np.nan], np.float32)
    other = x.copy()
    other.view(np.uint32)[1] = 0xFFFFFFFF
    assert canonical(x).tobytes() == canonical(other).tobytes()
    assert canonical(-x).tobytes() != canonical(x).tobytes()
    assert differing(other, x) == 0
    assert differing(-x, x) == 1
    assert differing(x[:1], x) == 2


def changed(text, other):
    return lambda content: content.replace(text, other, 1)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("manifest.json", lambda content: content[: len(content) // 2]),
        ("manifest.json", lambda content: b"[]"),
        ("footer.json", lambda content: b""),
        ("manifest.json", changed(b'"dq": "', b'"dQ": "')),
        ("manifest.json", changed(b"lengths/n17", b"lengths/n18")),
        ("manifest.json", changed(b'"inputs": "', b'"inputs": "0')),
        ("footer.json", changed(b'256": "', b'256": "0')),
    ],
)
def test_damaged_hashes_are_refused(made, tmp_path, name, damage):
    folder = tmp_path / "hashes"
    shutil.copytree(made / "hashes", folder)
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(damage(before))
    assert (folder / name).read_bytes() != before
    with pytest.raises(RecordingError):
        load_digests(folder)


def sealed(folder, edit):
    """The manifest edited, and the footer made to fit: what a forger would do."""
    manifest = json.loads((folder / "manifest.json").read_text())
    edit(manifest)
    text = json.dumps(manifest).encode()
    (folder / "manifest.json").write_bytes(text)
    footer = {"manifest_sha256": hashlib.sha256(text).hexdigest(), "answers": 0}
    (folder / "footer.json").write_text(json.dumps(footer))


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["hashed"].append(m["hashed"][0]),
        lambda m: m["hashed"][0].update(asked=99),
        lambda m: m["hashed"][0]["outputs"].update(dq="0" * 31),
        lambda m: m["hashed"][0]["outputs"].update(du="0" * 32),
        lambda m: m["hashed"][0]["outputs"].clear(),
        lambda m: m["hashed"][0].update(verdict="conforms"),
        lambda m: m["unanswered"].append({"asked": 0, "why": "error", "reason": "x"}),
        lambda m: m["asked"][0].update(case="lengths/n01"),
    ],
)
def test_forged_hashes_are_refused(made, tmp_path, edit):
    folder = tmp_path / "hashes"
    shutil.copytree(made / "hashes", folder)
    sealed(folder, lambda manifest: None)
    assert load_digests(folder).cases == load_digests(made / "hashes").cases
    sealed(folder, edit)
    with pytest.raises(RecordingError):
        load_digests(folder)


def test_hashes_are_not_judged_as_numbers(made):
    with pytest.raises(InputError, match="hashes of outputs"):
        judge_recording(load(made / "hashes"), checks=[get_check("bits")], emit=ignore)


def test_a_damaged_folder_is_refused(made, tmp_path):
    answer = next((made / "answers/answers").iterdir()).name
    for name in (f"answers/answers/{answer}", "tails/manifest.json", "answers/footer.json"):
        folder = tmp_path / name.replace("/", "-")
        shutil.copytree(made, folder)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-9] + b"?" + content[-8:])
        with pytest.raises(RecordingError):
            judge_shipped(folder=folder, emit=ignore)


def test_hashes_keep_what_made_them(made, tmp_path):
    digests = load_digests(made / "hashes")
    assert digests.producer == Emulator().info
    assert digests.cases.keys() == digests.inputs.keys() == set(ASKED)
    assert digests.specification == specification_hash()
    save_digests(digests, tmp_path / "again")
    assert load_digests(tmp_path / "again") == digests
    fewer = replace(digests, cases=dict(list(digests.cases.items())[1:]))
    assert fewer.sha256 != digests.sha256


def test_only_recorded_cases_are_judged(made):
    (finding,) = judge_shipped(["lengths/n1@0"], folder=made, emit=ignore)
    assert finding.case == "lengths/n1@0"
    with pytest.raises(UnknownNameError, match="recorded"):
        judge_shipped(["lengths/n2@0"], folder=made, emit=ignore)


def test_three_steps(tmp_path):
    asked = list_asked(contract="bundled:delta=shifted", cases=["lengths/n15@3", "lengths/n1"])
    write_asked(asked, tmp_path / "cases")
    assert read_asked(tmp_path / "cases") == asked
    recording = run_cases(Emulator(), asked)
    checks = [get_check("bits"), get_check("format")]
    findings = judge_recording(recording, checks=checks, emit=ignore)
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}
    assert len(findings) == 4


@pytest.mark.parametrize("line", ["nonsense", "{}", '"x"', json.dumps({"case": "lengths/n1"})])
def test_broken_lists_are_refused_with_the_line(tmp_path, line):
    path = tmp_path / "cases"
    write_asked([("lengths/n1@0", "bundled")], path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        read_asked(path)
    with pytest.raises(InputError):
        read_asked(tmp_path / "missing")


def test_cases_that_a_kernel_does_not_serve_are_noted(tmp_path):
    asked = (("lengths/n1@0", "article"), ("lengths/n1@0", "bundled"))
    recording = run_cases(Emulator(), asked)
    assert len(recording.answers) == 1
    declined = recording.unanswered[asked[0]]
    assert declined == Unanswered("unsupported", declined.reason)
    assert "order open" in declined.reason
    with pytest.raises(NothingRanError):
        run_cases(Emulator(), asked[:1])


def test_the_plan_covers_what_it_promises():
    items = combinations()
    assert len({(item.case, item.contract) for item in items}) == len(items) >= 300
    assert len({item.contract for item in items}) == 12
    text = " ".join(item.case for item in items)
    for d in (64, 128, 256):
        for n in (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191):
            for causal in (0, 1):
                assert f"queries={n},keys={n},head_dim={d},causal={causal}@" in text
    assert all(f"group-{g},head_dim={d}" in text for g in (1, 3, 7, 8) for d in (64, 128, 256))
    assert text.count("capture/") >= 18
    assert text.count("layout/") >= 30
