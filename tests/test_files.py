"""A file is replaced whole or stays as it was; what is no plain file stays what it is.

No path here lies in a folder where a wrong `write_atomically` could replace what the machine needs:
/dev/stdout and /dev/null are met through /proc and through links, where no file can be renamed to.
"""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.errors import InputError
from dmverify.files import write_atomically


def test_a_text_replaces_the_file_and_others_may_read_it(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    assert write_atomically(path, "Δ\n") == path
    assert path.read_text(encoding="utf-8") == "Δ\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def full_disk(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("text", "breaks", "error"),
    [
        ("new, then a character that UTF-8 does not have: \ud800", (), UnicodeEncodeError),
        ("new", ((Path, "chmod"),), OSError),
        ("new", ((Path, "replace"),), OSError),
    ],
)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    text, breaks, error, tmp_path, monkeypatch
):
    path = tmp_path / "report.json"
    path.write_text("old")
    for owner, name in breaks:
        monkeypatch.setattr(owner, name, full_disk)
    with pytest.raises(error):
        write_atomically(path, text)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["old", None])
def test_a_link_stays_and_its_target_is_replaced(content, tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "report.json", tmp_path / "link"
    if content is not None:
        target.write_text(content)
    link.symlink_to(Path("far", "report.json"))
    write_atomically(link, "new")
    assert link.is_symlink()
    assert not target.is_symlink()
    assert target.read_text() == "new"
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "far", target, link])


def test_a_link_to_itself_stays_and_is_an_error(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(link, "new")
    assert link.is_symlink()


def test_a_reader_of_a_fifo_gets_the_text(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a writer waits for one otherwise
    try:
        write_atomically(path, "all of it")
        assert os.read(reader, 64) == b"all of it"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_takes_the_text_and_stays_a_device():
    ours, theirs = os.openpty()  # a device of the test's own: /dev/null would be the machine's
    try:
        path = Path(os.ttyname(theirs))
        write_atomically(path, "to a device")
        assert os.read(ours, 64) == b"to a device"
        assert stat.S_ISCHR(path.stat().st_mode)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_link_to_a_device_is_followed_as_well(tmp_path):
    before = os.stat(os.devnull)
    link = tmp_path / "nothing"
    link.symlink_to(os.devnull)  # a rename onto it would hit the link alone
    write_atomically(link, "text")
    assert link.is_symlink()
    after = os.stat(os.devnull)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_what_stdout_goes_to_keeps_what_is_there(tmp_path):
    program = (
        "from pathlib import Path\n"
        "from dmverify.files import write_atomically\n"
        "print('before', flush=True)\n"
        "write_atomically(Path('/proc/self/fd/1'), 'text\\n')\n"
        "print('after')\n"
    )
    words = [sys.executable, "-c", program]
    path = tmp_path / "file"
    with path.open("w") as file:
        subprocess.run(words, stdout=file, check=True)
    piped = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    assert path.read_text() == piped.stdout == "before\ntext\nafter\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_is_refused_and_says_what_to_do(tmp_path):
    path = tmp_path / "report.json"
    path.mkdir()
    with pytest.raises(InputError, match="directory; fix: name a file in it") as caught:
        write_atomically(path, "new")
    assert caught.value.value == path
    assert list(tmp_path.rglob("*")) == [path]


@pytest.mark.parametrize("option", ["--junit", "--out"])
def test_the_command_exits_2_on_a_directory_where_a_file_goes(option, tmp_path):
    (tmp_path / "report.json").mkdir()
    run = ["verify", "simulation", "--case", "lengths/n1@0", "--check", "o"]
    result = CliRunner().invoke(cli, [*run, option, str(tmp_path)])
    assert result.exit_code == 2
    assert "directory" in result.stderr
    assert "Traceback" not in result.stderr
    if option == "--out":  # what click cannot see before the run
        assert result.stderr.startswith("[DMV-INPUT]")
        assert len(result.stderr.strip().splitlines()) == 1


def test_the_command_writes_into_a_device():
    run = ["verify", "simulation", "--case", "lengths/n1@0", "--check", "o"]
    words = [sys.executable, "-m", "dmverify", *run, "--junit", "/proc/self/fd/1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown, mark, junit = done.stdout.partition("<?xml")
    assert "simulation: conforms" in shown
    assert mark
    assert junit.rstrip().endswith("</testsuites>")
