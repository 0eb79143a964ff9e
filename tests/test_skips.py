"""In CI a test that is skipped fails the run, and says why; elsewhere it is skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import ALLOWED

ROOT = Path(__file__).parents[1]
WHOLE = 'import pytest\npytest.importorskip("no_such_driver")\ndef test(): pass\n'
ONE = 'import pytest\ndef test(): pytest.skip("no chromium on this machine")\n'
MARK = 'import pytest\n@pytest.mark.skipif(True, reason="no solver")\ndef test(): pass\n'
KNOWN = f"import pytest\ndef test(): pytest.skip({ALLOWED[0]!r})\n"
FAILING = "import pytest\n@pytest.mark.xfail(strict=True)\ndef test(): assert False\n"


def run(folder, source, ci):
    (folder / "test_it.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {"CI": "true"} if ci else {}
    if not ci:
        environment.pop("CI", None)
    words = ["-m", "pytest", "-q", "-p", "tests.skips", "-c", os.devnull, f"--rootdir={folder}"]
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("source", [WHOLE, ONE, MARK])
def test_what_is_missing_fails_the_run_in_ci_alone(tmp_path, source):
    code, said = run(tmp_path, source, ci=True)
    assert code != 0
    assert "there nothing is skipped" in said
    code, said = run(tmp_path, source, ci=False)
    assert code in (0, 5), said


@pytest.mark.parametrize("source", [KNOWN, FAILING])
def test_what_no_runner_could_run_and_known_failures_stay_as_they_are(tmp_path, source):
    assert run(tmp_path, source, ci=True)[0] == 0
