"""Kills a run at its n-th step on the disk, for every n, and lets the same run go on after it.

A step is a call that changes the disk: making a folder, opening a file to write, writing (of which
half is done), fsync, renaming, removing, and a statement of SQLite, before it and after it. The
process ends there as by SIGKILL: nothing is flushed, closed or undone. Prints one JSON object.
"""

import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from dmverify.conformance.journal import Journal
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.questions import list_asked
from dmverify.conformance.store import ANSWERS
from dmverify.conformance.three_steps import run_cases

KILLED = 77  # exit code
CASES = ("lengths/n1@0", "lengths/n2@0")
ASKED = list_asked(contract="article", cases=CASES)


class Steps:
    """Counts steps, and ends the process at one of them."""

    def __init__(self, last):
        self.count, self._last = 0, last

    def __call__(self):
        self.count += 1
        if self.count == self._last:
            os._exit(KILLED)


class HalfWriter:
    """A file that is killed in the middle of what it writes."""

    def __init__(self, file, step):
        self._file, self._step = file, step

    def write(self, content):
        half = len(content) // 2
        self._file.write(content[:half])
        self._file.flush()
        self._step()
        return half + self._file.write(content[half:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def watch(step):
    """Puts a step around everything that changes the disk."""
    for name in ("fsync", "replace", "rename", "unlink", "mkdir"):
        setattr(os, name, around(getattr(os, name), step))
    plain = Path.open

    def opened(path, mode="r", *rest, **more):
        if "w" not in mode:
            return plain(path, mode, *rest, **more)
        step()
        return HalfWriter(plain(path, mode, *rest, **more), step)

    Path.open = opened

    class Base(sqlite3.Connection):
        def execute(self, *words):
            step()
            found = super().execute(*words)
            step()
            return found

    connect = sqlite3.connect
    sqlite3.connect = lambda *words, **more: connect(*words, factory=Base, **more)


def around(call, step):
    def stepped(*words, **more):
        step()
        found = call(*words, **more)
        step()
        return found

    return stepped


def in_child(out, last=None):
    """Exit code of a run in a process of its own, and how many steps it took."""
    given, taken = os.pipe()
    if not (child := os.fork()):
        step = Steps(last)
        watch(step)
        try:
            run_cases(Simulation(), ASKED, out=out)
            os.write(taken, str(step.count).encode())
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    os.close(taken)
    with os.fdopen(given) as file:
        said = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(said or 0)


def contents(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def leave_a_part():
    """What a journal that forgets does: half a file counts as the recording's."""
    finish = Journal.finish

    def forgetful(self, recording):
        finish(self, recording)
        (self.directory / ANSWERS / "x.part").write_bytes(b"half")

    Journal.finish = forgetful


def main(folder, *, wrong):
    """Kills at every step; what is left is as if nothing had been."""
    code, steps = in_child(folder / "whole")
    due, rows = contents(folder / "whole"), []
    if wrong:
        leave_a_part()
    for last in range(1, 3 if wrong else steps + 1):
        out = folder / f"r{last}"
        killed = in_child(out, last)[0]
        names = contents(out) if out.exists() else {}
        half = any(name.endswith((".part", "-journal")) for name in names)
        again = in_child(out)[0]
        # after the last step but one the recording is complete, and is not made again
        complete = killed == KILLED and again == 1 and names == due
        same = contents(out) == due
        rows.append({"killed": killed, "half": half, "again": again, "same": same or complete})
        shutil.rmtree(out)
    print(json.dumps({"code": code, "steps": steps, "files": sorted(due), "rows": rows}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), wrong=sys.argv[2:] == ["wrong"])
