"""A file is replaced whole or stays as it was."""

import stat

import pytest

from dmverify.files import write_atomically


def test_a_text_replaces_the_file_and_others_may_read_it(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    assert write_atomically(path, "Δ\n") == path
    assert path.read_text(encoding="utf-8") == "Δ\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new, then a character that UTF-8 does not have: \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
