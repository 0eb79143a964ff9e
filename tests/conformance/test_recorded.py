"""Recordings that packages offer: found by name, judged by name, refused if they are none."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from dmverify import verify
from dmverify.conformance import recorded
from dmverify.conformance.events import CheckDone
from dmverify.conformance.recorded import GROUP, Recording, offered_recordings
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import KernelError


def judge(cases=(), /, *, level, emit, pool):
    found = Finding("theirs", "a", Verdict.FAILS, float("inf"), judged=1, reason=level)
    emit(CheckDone(found))
    return (found,)


THEIRS = Recording("theirs", "answers of another", "a table", judge, notes=lambda level: (level,))


@pytest.fixture
def offer(monkeypatch):
    """Makes installed packages offer these: (name, target) each."""

    def made(*pairs):
        points = EntryPoints(EntryPoint(name, target, GROUP) for name, target in pairs)
        monkeypatch.setattr(recorded, "entry_points", points.select)

    return made


def test_ours_are_offered_like_anybody_s():
    assert list(offered_recordings()) == ["recorded-bundled", "recorded-instructions"]


def test_one_is_judged_by_its_name(offer):
    offer(("theirs", f"{__name__}:THEIRS"))
    report = verify("theirs")
    assert not report.ok
    assert report.notes == ("smoke",)
    assert [finding.reason for finding in report.subjects[0].findings] == ["smoke"]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("theirs", "no_such_module:X"),
        ("theirs", f"{__name__}:NONE"),
        ("other", f"{__name__}:judge"),
    ],
)
def test_what_is_none_is_refused(name, target, offer):
    offer((name, target))
    with pytest.raises(KernelError, match=f"{GROUP} (can be imported|is a)"):
        verify(name)
