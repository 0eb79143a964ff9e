"""Forged recordings, lists and journals end in the right verdict or a typed refusal.

Each is read in a child of its own with a limit of memory and processor time (``limited``).
"""

import pytest

from tests.conformance import forged_answers, forged_rows
from tests.conformance.forgeries import base
from tests.conformance.limited import Limited

ROWS = [*forged_rows.ROWS, *forged_answers.ROWS]


@pytest.fixture(scope="module")
def limited():
    found = Limited()
    yield found
    found.close()


@pytest.mark.parametrize(("name", "forge", "code", "says"), ROWS, ids=[row[0] for row in ROWS])
def test_a_forged_recording_says_nothing_untrue(name, forge, code, says, tmp_path, limited):
    path = base(tmp_path / "r")
    forge(path)
    found = limited.call("check", path, "--check", "o", "--check", "format")
    assert found["code"] == code, found
    said = found["out"] + found["err"]
    assert says in " ".join(said.split()), said
    assert "DMV-INTERNAL" not in said
    assert not [line for line in said.splitlines() if line.startswith("bundled: conforms")]
    assert all(letter.isprintable() or letter == "\n" for letter in said)
