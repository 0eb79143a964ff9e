"""What the pages say is what happens: commands, code, names, the drawing."""

import runpy
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks, commands, not_shown, run

PAGES = ["README.md", "docs/tutorial.md"]
# What the README's reader brings; here it is the example's kernel.
MY_KERNELS = """
from dmverify.spec.case import Case
from numpy_attention import Attention

def backward(inputs, problem):
    found = Attention().backward(Case("mine/case@0", "article", problem, inputs))
    return found.o, found.lse, found.dq, found.dk, found.dv

def forward(inputs, problem):
    return backward(inputs, problem)[:2]
"""


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(page, tmp_path):
    text = read(page)
    assert commands(text)
    for (command, shown), printed in zip(commands(text), run(text, tmp_path), strict=False):
        missing = not_shown(shown, printed)
        assert missing is None, f"{command}\ndid not print: {missing}\nbut:\n{printed}"


@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_kernels.py").write_text(MY_KERNELS)
    assert blocks(read(page), "python")
    for code in blocks(read(page), "python"):
        (tmp_path / "page.py").write_text(code)
        runpy.run_path("page.py")


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        (["a 1.5 b"], "x\na   7e-3 b and more", None),
        (["a", "b"], "b\na", "b"),
        (["dq fails"], "dq conforms", "dq fails"),
    ],
)
def test_a_page_that_shows_something_else_is_found(shown, printed, missing):
    assert not_shown(shown, printed) == missing


def structure(folder):
    """The drawing's program on a copy of the package."""
    return subprocess.run(
        [sys.executable, folder / "docs" / "tools" / "structure.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_drawing_is_what_the_imports_say():
    found = structure(ROOT)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("import dmverify.lab", "stale"),  # an arrow that the picture does not have
        ("import dmverify.cli", "CycleError"),  # a circle
    ],
)
def test_a_stale_drawing_and_a_circle_are_found(line, error, tmp_path):
    for name in ("docs", "dmverify"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=lambda folder, names: [
            n for n in names if not n.endswith((".py", ".svg")) and "." in n
        ])  # fmt: skip
    module = {"import dmverify.lab": "studies", "import dmverify.cli": "conformance"}[line]
    with (tmp_path / "dmverify" / module / "__init__.py").open("a") as file:
        file.write(f"\n{line}\n")
    assert error in structure(tmp_path).stderr
