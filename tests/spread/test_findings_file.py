"""A file of findings: cut off anywhere it gives what was whole, and it takes nothing else."""

import math

import pytest

from dmverify.conformance.accuracy import NOTHING, Accuracy
from dmverify.conformance.pattern import Heat, Pattern, Span, Trait
from dmverify.conformance.spread.findings_file import FIRST, FindingsFile, count_kept, read_findings
from dmverify.conformance.spread.plan import FILE
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.errors import InputError
from tests.spread.workers import finding, plan

ELEMENT = Element("o", (0, 1), math.nan, "7fc0", -0.0, "80000000", 1e-300, -math.inf, 1.0, math.inf)
PATTERN = Pattern(
    "o",
    3,
    9,
    (Span("query", 0, 4, 3, 5, 2),),
    (Trait("factor", 0.5, 2.0, "", "scale"),),
    math.nan,
    Heat("batch 0", ("query", "channel"), (2, 2), ((0.0, 1.5), (math.inf, 2.0))),
)
FULL = Finding(
    "o",
    "made/up@1",
    Verdict.FAILS,
    math.inf,
    ELEMENT,
    9,
    1,
    "too far",
    "",
    Accuracy(NOTHING, NOTHING),
    PATTERN,
    ("lse",),
)


def write(folder, the_plan, *, end=True):
    with FindingsFile(folder, the_plan, resume=False) as file:
        for place in the_plan.places:
            case = the_plan.asked[place][0]
            file.keep(place, (FULL if place == 1 else finding("o", case),))
        if end:
            file.end({"made/up@1": ("made/up@0",)}, ("a note",))
    return folder / FILE


def test_every_field_comes_back_with_nan_and_infinity(tmp_path):
    the_plan = plan(3)
    write(tmp_path, the_plan)
    kept = read_findings(tmp_path)
    assert kept.plan == the_plan
    assert repr(kept.judged[1]) == repr((FULL,))  # NaN is not equal to itself
    assert kept.judged[2] == (finding("o", "made/up@2"),)
    assert kept.before == {"made/up@1": ("made/up@0",)}
    assert kept.notes == ("a note",)


def test_cut_off_anywhere_it_goes_on_with_what_was_whole(tmp_path):
    the_plan = plan(3)
    whole = write(tmp_path / "whole", the_plan, end=False).read_bytes()
    counts = []
    for size in range(len(whole) + 1):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / FILE).write_bytes(whole[:size])
        with FindingsFile(folder, the_plan, resume=True) as file:
            counts.append(len(file.judged))
            for place in set(the_plan.places) - set(file.judged):
                file.keep(place, (finding("o", the_plan.asked[place][0]),))
            file.end({}, ())
        assert sorted(read_findings(folder).judged) == [0, 1, 2]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 3)
    assert set(counts) == {0, 1, 2, 3}


def test_no_damaged_byte_goes_unnoticed(tmp_path):
    path = write(tmp_path, plan(2))
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            read_findings(path)
    path.write_bytes(whole)
    assert len(read_findings(path).judged) == 2


@pytest.mark.parametrize("content", [b"", FIRST, b"x", b"{}\n" * 20, FIRST + b"\0" * 64])
def test_what_is_no_such_file_is_refused(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match="remove it"):
        read_findings(tmp_path)


def test_a_folder_without_it_says_how_it_is_written(tmp_path):
    with pytest.raises(InputError, match="--shard i/n --out FOLDER"):
        read_findings(tmp_path)


def test_what_an_interrupted_run_left_is_not_taken_or_lost_unasked(tmp_path):
    write(tmp_path, plan(3), end=False)
    with pytest.raises(InputError, match=r"3 of 3 cases.*--resume"):
        FindingsFile(tmp_path, plan(3), resume=False)
    with pytest.raises(InputError, match="other level"):
        FindingsFile(tmp_path, plan(3, level="full"), resume=True)
    with pytest.raises(InputError, match="interrupted with 0 cases left"):
        read_findings(tmp_path)
    with FindingsFile(tmp_path, plan(3), resume=True) as file:
        assert len(file.judged) == 3


def test_what_ended_begins_anew_unless_it_is_to_be_gone_on_with(tmp_path):
    write(tmp_path, plan(3))
    with FindingsFile(tmp_path, plan(3), resume=True) as file:
        assert len(file.judged) == 3
    with FindingsFile(tmp_path, plan(3), resume=False) as file:
        assert file.judged == {}


def test_one_run_at_a_time(tmp_path):
    with (
        FindingsFile(tmp_path, plan(1), resume=False),
        pytest.raises(InputError, match="one run at a time"),
    ):
        FindingsFile(tmp_path, plan(1), resume=True)


def test_what_is_kept_can_be_counted_while_it_is_written(tmp_path):
    assert count_kept(tmp_path / FILE) == 0
    with FindingsFile(tmp_path, plan(3), resume=False) as file:
        assert count_kept(tmp_path / FILE) == 0
        file.keep(0, (FULL,))
        file.keep(0, (FULL,))
        assert count_kept(tmp_path / FILE) == 2
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:-1])
    assert count_kept(tmp_path / FILE) == 1
