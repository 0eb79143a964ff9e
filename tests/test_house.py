"""What there is one of: the pipeline, the margin, the driver of processes, the command line.

Each rule reads the syntax trees of the package, and a text that breaks it shows that it can fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmverify

ROOT = Path(dmverify.__file__).parent
WHOLE = ("spec", "conformance", "lab", "attack", "ci", "studies", "cli")


def names(tree: ast.AST) -> Iterator[str]:
    """Every name that a text calls, imports or reads, the last part of dotted ones."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name.split(".")[0] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from (node.module, node.module.split(".")[0])
        elif isinstance(node, ast.Call):
            called = node.func
            yield f"{getattr(called, 'attr', getattr(called, 'id', ''))}()"
        elif isinstance(node, ast.Attribute):
            yield f".{node.attr}"


# What is done in one place: how its doing looks, and where that is, with the reason for the others.
ONCE = {
    "events of a case and the end of a run: one pipeline": (
        {"CaseStarted()", "CheckDone()", "CaseDone()", "RunDone()"},
        {"conformance/pipeline.py"},
        set(),
    ),
    "processes that go on: one driver of kernels, and one of the judge's own work": (
        {"Popen()", ".Popen"},
        {"conformance/process/child.py", "conformance/pool.py"},
        {
            "lab/acceptance/sanitizer.py",  # compute-sanitizer, a tool that watches this project
            "lab/spread/loss.py",  # commands of this project, which are killed on purpose
        },
    ),
    "journals": ({"sqlite3"}, {"conformance/journal.py"}, set()),
    "arrays on disk: the recording": (
        {"dmverify.conformance.tensors", "safetensors", "savez()", "savez_compressed()"}
        | {"save_file()", "tofile()", "memmap()"},
        {"conformance/tensors.py", "conformance/store.py", "conformance/load.py"},
        {
            # How an answer crosses from a process; it is read once.
            *(f"conformance/process/{name}.py" for name in ("inside", "kernel", "link", "serve")),
            # What users bring, or take to programs that know nothing of this one.
            "conformance/captures/calls.py",
            *(f"conformance/tensor_files/{name}.py" for name in ("bfloat16", "hand_on")),
            # Inputs that ship.
            "attack/corpus.py",
            "conformance/captures/store.py",
            "lab/captures/encoder.py",
            "lab/captures/write.py",
            # No kernel's answers to cases: a search's state, instructions, and mutants of CUDA,
            # whose two answers to a case do not outlive the judging.
            "attack/checkpoint.py",
            "lab/mutants/cuda/answer_files.py",
            "lab/probes/recordings.py",
        },
    ),
    "command lines": ({"click"}, {"cli"}, set()),
    "command lines of other kinds": (
        {"argparse", "optparse", "getopt", ".argv"},
        set(),
        # Workers, which get one argument of the process that starts them.
        {"conformance/process/serve.py", "lab/mutants/cuda/worker.py"},
    ),
}


def found(what: set[str]) -> set[str]:
    """The modules that do one of these, by their path."""
    paths = (path for layer in WHOLE for path in sorted((ROOT / layer).rglob("*.py")))
    return {
        str(path.relative_to(ROOT))
        for path in paths
        if not what.isdisjoint(names(ast.parse(path.read_text())))
    }


@pytest.mark.parametrize("rule", ONCE)
def test_it_is_done_in_one_place(rule):
    what, home, others = ONCE[rule]
    strays = {path for path in found(what) if not path.startswith(tuple(home)) or not home}
    assert strays == others


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (0, "emit(CaseStarted(case, 1))"),
        (0, "events.RunDone()"),
        (1, "import subprocess\nsubprocess.Popen(['ls'])"),
        (1, "from subprocess import Popen\nPopen(['ls'])"),
        (2, "import sqlite3"),
        (2, "def f():\n    from sqlite3 import connect"),
        (3, "from safetensors.numpy import save_file"),
        (3, "np.savez('answers.npz', **outputs)"),
        (3, "from dmverify.conformance.tensors import encode"),
        (4, "import click"),
        (5, "from argparse import ArgumentParser"),
        (5, "import sys\nprint(sys.argv)"),
    ],
)
def test_the_rule_sees_it(rule, text):
    what, _, _ = list(ONCE.values())[rule]
    assert not what.isdisjoint(names(ast.parse(text)))


def divisions(tree: ast.AST) -> Iterator[str]:
    """What a text divides by, as far as it has a name."""
    for node in ast.walk(tree):
        over = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "divide":
            over = node.args[1]
        for part in ast.walk(over) if over is not None else ():
            yield getattr(part, "id", getattr(part, "attr", ""))


BOUNDS = {"bound", "bounds", "above", "below", "allowed", "limits", "tolerance", "tolerances"}


def test_errors_are_divided_by_bounds_in_one_place():
    """A bound divided by a size is a figure; an error divided by a bound is a margin."""
    paths = (path for layer in WHOLE for path in sorted((ROOT / layer).rglob("*.py")))
    where = {
        str(path.relative_to(ROOT))
        for path in paths
        if not BOUNDS.isdisjoint(divisions(ast.parse(path.read_text())))
    }
    assert where == {"spec/margin.py"}


@pytest.mark.parametrize(
    "text",
    [
        "error / bound",
        "np.abs(x) / np.where(up, band.above, 1)",
        "np.divide(error, bound)",
        "size[bad] / limits[bad]",
    ],
)
def test_another_margin_is_seen(text):
    assert not BOUNDS.isdisjoint(divisions(ast.parse(text)))
