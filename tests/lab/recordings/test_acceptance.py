"""The acceptance without a GPU: decoding of records, conditions, judging, shapes to time."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from dmverify.conformance.families import generate
from dmverify.conformance.journal import JOURNAL
from dmverify.conformance.kernels.certify import KERNELS
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.gpu_emulator import emulate
from dmverify.errors import InputError, UnknownNameError
from dmverify.kernel.build import source
from dmverify.lab.acceptance import residuals, stages
from dmverify.lab.acceptance.combinations import CutError, record_and_judge
from dmverify.lab.acceptance.distances import distances, errors
from dmverify.lab.acceptance.residuals import decode_records, ratio
from dmverify.lab.acceptance.sanitizer import WATCHES
from dmverify.lab.acceptance.session import Session
from dmverify.lab.acceptance.small import WAYS, cases
from dmverify.lab.acceptance.survivors import survivors
from dmverify.lab.bench.attention import PEERS, bench, find_peer
from dmverify.lab.bench.shapes import DEFAULT, parse_shape
from dmverify.lab.recordings.shipped import DIGESTS, differing, expected
from dmverify.spec.formats import E4M3
from tests.commands import lab

TILE, RECORD = 64, 2 * 64 * 64 + 32


def encoded(codes, exponents):
    """Records of (head, block, tile, query, key) codes, byte by byte as the kernel stores them."""
    records = np.full((len(exponents), RECORD), 0xFF, np.uint8)
    for record, ((h, b, t), (shift_p, shift_u)) in zip(records, exponents.items(), strict=True):
        for key in range(TILE):
            for slot in range(TILE):
                group, inside = divmod(slot, 16)
                query = 16 * group + (inside >> 1) + 8 * (inside & 1)
                chunk = group ^ ((key >> 1) & 3)
                at = TILE * TILE + key * 64 + (chunk << 4) + inside
                record[at] = codes[h, b, t, query, key]
        words = np.array([0, 0, shift_p, shift_u], np.int32)
        record[2 * TILE * TILE :][:16] = words.view(np.uint8)
    return records


def test_records_are_decoded_where_the_kernel_puts_them():
    rng = np.random.default_rng(3)
    heads, blocks, tiles = 2, 2, 3
    codes = rng.integers(0, 0x7E, (heads, blocks, tiles, TILE, TILE)).astype(np.uint8)
    exponents = {
        (h, b, t): tuple(map(int, rng.integers(-20, 20, 2)))
        for h in range(heads)
        for b in range(blocks)
        for t in range(tiles)
    }
    everything = np.ones((blocks, tiles), np.bool_)
    unit, values = decode_records(encoded(codes, exponents), heads=heads, seen=everything)
    assert values.shape == (heads, blocks * TILE, tiles * TILE)
    for (h, b, t), (shift_p, shift_u) in exponents.items():
        rows, columns = slice(b * TILE, (b + 1) * TILE), slice(t * TILE, (t + 1) * TILE)
        assert np.array_equal(values[h, rows, columns], E4M3.decode(codes[h, b, t]))
        assert (unit[h, rows, columns] == 2.0 ** (shift_u - shift_p)).all()


def test_tiles_that_no_query_sees_have_no_record():
    rng = np.random.default_rng(4)
    heads, blocks, tiles = 2, 2, 3
    codes = rng.integers(0, 0x7E, (heads, blocks, tiles, TILE, TILE)).astype(np.uint8)
    seen = np.array([[True, True, False], [True, True, True]])
    places = [(h, b, t) for h in range(heads) for b in range(blocks) for t in range(tiles)]
    exponents = {at: (1, 3) for at in places if seen[at[1:]]}
    unit, values = decode_records(encoded(codes, exponents), heads=heads, seen=seen)
    for h, b, t in places:
        rows, columns = slice(b * TILE, (b + 1) * TILE), slice(t * TILE, (t + 1) * TILE)
        expected_values = E4M3.decode(codes[h, b, t]) if seen[b, t] else 0.0
        assert (values[h, rows, columns] == expected_values).all()
        assert not seen[b, t] or (unit[h, rows, columns] == 4.0).all()


def test_ratio_is_the_median_of_rows():
    ds = np.array([[1.0, -1.0], [3.0, -1.0], [0.0, 0.0]])
    assert ratio(ds) == 0.0
    assert ratio(ds[1:2]) == 0.5


def rows(**changes):
    """Figures that meet every condition, some of them changed."""
    made = []
    for mode in residuals.MODES:
        for cast in ("nearest", "zero-sum"):
            for spread in residuals.SPREADS:
                before = residuals.TABLE.get(mode, {}).get(spread, 1e-8)
                after = 1e-4 if cast == "zero-sum" else 1e-3
                row = {"mode": mode, "cast": cast, "spread": spread, "dump changes bits": False}
                made.append(
                    row | {"residual": before, "residual_cast": after} | changes.get(mode, {})
                )
    return made


GOOD = [{"spread": 1, "output": "o", "kernel": 0.0459, "article": 0.0459}]


def test_conditions_hold_for_good_figures():
    assert all(residuals._conditions(rows(), GOOD).values())


@pytest.mark.parametrize(
    ("changes", "accuracy", "failed"),
    [
        ({"matched": {"residual": 1e-3}}, GOOD, "matched at round-off"),
        ({"shifted": {"residual": 1e-3}}, GOOD, "shifted at round-off at spread 64"),
        ({"stale": {"residual": 1e-8}}, GOOD, "stale and consistent as in the article"),
        ({"matched": {"residual_cast": 1e-3}}, GOOD, "zero-sum at least 4 times below nearest"),
        ({"stale": {"dump changes bits": True}}, GOOD, "a dump changes no bit"),
        ({}, [GOOD[0] | {"kernel": 0.048}], "O and dQ within 3 % of the article's recipe"),
    ],
)
def test_each_condition_can_fail(changes, accuracy, failed):
    verdicts = residuals._conditions(rows(**changes), accuracy)
    assert [name for name, holds in verdicts.items() if not holds] == [failed]


COMBINED = (("lengths/n15@0", "bundled:delta=renormalized"), ("lengths/n1@0", "bundled"))


class Counted(Emulator):
    """The specification, which counts how often it is asked; one bit of one answer is wrong."""

    asked, wrong = 0, ""

    def backward(self, case):
        self.asked += 1
        outputs = super().backward(case)
        if case.id == self.wrong:
            outputs.dv.view(np.uint32)[0, 3, 0, 5] ^= 1 << 16
        return outputs


def test_combinations_are_recorded_once_and_replayed(tmp_path):
    session, kernel = Session(tmp_path, None, 1e9), Counted()
    found = record_and_judge(session, kernel, COMBINED)
    assert (found["ok"], found["equal"]) == (True, 2)
    asked = kernel.asked
    assert record_and_judge(session, kernel, COMBINED) == found
    assert kernel.asked == asked


def test_one_wrong_bit_of_a_combination_is_seen(tmp_path):
    kernel = Counted()
    kernel.wrong = COMBINED[0][0]
    found = record_and_judge(Session(tmp_path, None, 1e9), kernel, COMBINED)
    assert (found["ok"], found["equal"]) == (False, 1)
    ((case, reason),) = found["wrong"]
    assert case == kernel.wrong
    assert "hash of dv differs" in reason


def test_a_session_that_is_cut_goes_on_from_its_journal(tmp_path):
    session, kernel = Session(tmp_path, None, -1), Counted()
    with pytest.raises(CutError):
        record_and_judge(session, kernel, COMBINED)
    assert (tmp_path / DIGESTS / JOURNAL).exists()
    assert kernel.asked == 1
    session.seconds = 1e9
    assert record_and_judge(session, kernel, COMBINED)["ok"]


def test_errors_are_measured_from_float64_attention():
    case = "gaussian/spread-1,heads=1,kv_heads=1,queries=64,keys=64@0"
    recipe = errors(case)
    ours = distances(case, expected(generate(case, contract="bundled")))
    for name in ("o", "dq"):
        distance, size = ours[name]
        assert 0.01 < distance / size < 0.2
        assert recipe[name][1] == size
        assert math.isclose(recipe[name][0], distance, rel_tol=0.3)


def test_the_emulator_on_torch_has_the_bits_of_the_specification():
    case = generate("gaussian/spread-4,heads=1,kv_heads=1,queries=65,keys=70@0", contract="bundled")
    got, due = emulate(case, device="cpu"), expected(case)
    assert not any(differing(getattr(got, name), array) for name, array in due.items())
    other = expected(replace(case, contract="bundled:delta=stale"))
    assert differing(other.dq, got.dq)


def test_shapes_to_time_read_back():
    assert all(parse_shape(str(shape)) == shape for shape in DEFAULT)
    assert parse_shape("1,16,16,8192,128,full").work == 2 * parse_shape("1,16,16,8192,128").work
    for wrong in (
        "",
        "1,2,3",
        "1,16,3,128,64",
        "1,16,16,0,64",
        "1,16,16,8192,x",
        "1,1,1,1,64,half",
    ):
        with pytest.raises(InputError, match="B,H,Hkv,N,D"):
            parse_shape(wrong)


def test_unknown_peers_and_machines_without_a_gpu_are_refused(monkeypatch):
    assert find_peer("bundled:delta=stale").name == "bundled:delta=stale"
    assert set(PEERS) >= {"bundled", "cudnn-bf16", "flash-2"}
    with pytest.raises(UnknownNameError):
        find_peer("cudnn")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="no GPU"):
        list(bench(DEFAULT))


def test_bytes_that_no_kernel_wrote_are_counted():
    scales = torch.zeros(2, 4)
    assert survivors(scales) == 0
    scales[1, 3:].view(torch.int32).fill_(-1)
    assert survivors(scales) == 1
    records = torch.full((10, RECORD), 0xFF, dtype=torch.uint8)
    records[:, :8192] = 0
    assert survivors(records) == 0
    records[9, 5] = 0xFF
    assert survivors(records) == 1


def test_every_way_of_the_sanitizer_is_built_from_the_present_source():
    assert {watch.way for watch in WATCHES} == WAYS.keys()
    assert {watch.tool for watch in WATCHES if watch.strict} == {
        "memcheck", "synccheck", "initcheck", "racecheck",
    }  # fmt: skip
    for choices in WAYS.values():
        texts = [source(kernel, edits=choices.edits) for kernel in KERNELS]
        assert (texts == [source(kernel) for kernel in KERNELS]) == (not choices.edits)
    assert all(generate(case, contract=contract).problem.keys for case, contract in cases())


@pytest.mark.parametrize(
    ("seconds", "ok", "code"), [(1e9, True, 0), (1e9, False, 1), (-1, True, 1)]
)
def test_seconds_that_are_used_up_are_no_success(tmp_path, monkeypatch, seconds, ok, code):
    monkeypatch.setattr(stages, "open_pool", lambda: ThreadPoolExecutor(1))
    monkeypatch.setattr(stages, "_run", lambda session, stage: {"ok": ok})
    said = lab("acceptance", f"--seconds={seconds}", tmp_path, "build")
    assert said.exit_code == code
    assert ("NOT COMPLETE" in said.stdout) == (seconds < 0)


def test_a_stage_that_the_clock_cuts_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "open_pool", lambda: ThreadPoolExecutor(1))

    def cut(session, stage):
        session.seconds = -1
        return {"ok": False}

    monkeypatch.setattr(stages, "_run", cut)
    said = lab("acceptance", tmp_path, "build", "dump")
    assert said.exit_code == 1
    assert "used up before build, dump" in said.stdout
