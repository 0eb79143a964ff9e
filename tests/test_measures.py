"""What ``docs/structure.md`` says of the code's shape is counted here, and may not grow past it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import dmverify

ROOT = Path(dmverify.__file__).parent
ROW = re.compile(r"^\| ([^|]+?) \| at most (\d+) \|", re.M)
MANY, SHORT = 5, 60  # arguments, lines


@cache
def texts():
    """Every module of the package by its path; links are not followed, so they are named."""
    found = {
        str(path.relative_to(ROOT)): path.read_text()
        for top in (ROOT, ROOT / "kernel", ROOT / "proofs")
        for path in top.rglob("*.py")
    }
    assert len(found) > 500
    return found


@cache
def tree(text):
    return ast.parse(text)


def functions(text):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree(text)) if isinstance(node, kinds)]


def reads(text):
    """Fields that are read of what is called ``contract``."""
    nodes = [n for n in ast.walk(tree(text)) if isinstance(n, ast.Attribute)]
    return sum(getattr(n.value, "id", getattr(n.value, "attr", "")) == "contract" for n in nodes)


def long_signatures(text):
    found = 0
    for function in functions(text):
        every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        found += len(every) > MANY
    return found


def long_by_place(text):
    """The same of arguments that need no name, the object or context aside."""
    found = 0
    for function in functions(text):
        by_place = (*function.args.posonlyargs, *function.args.args)
        found += sum(one.arg not in ("self", "cls", "ctx") for one in by_place) > MANY
    return found


def late_imports(text):
    nodes = (node for function in functions(text) for node in ast.walk(function))
    return sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)


MEASURES = {
    "modules": ("", lambda text: 1),
    "modules of fewer than 60 lines": ("", lambda text: len(text.splitlines()) < SHORT),
    "fields of a contract read in the specification": ("spec/", reads),
    "functions with more than 5 arguments": ("", long_signatures),
    "of these, more than 5 by place": ("", long_by_place),
    "imports inside functions": ("", late_imports),
}


def ceilings():
    page = (ROOT.parent / "docs" / "structure.md").read_text()
    return {name: int(number) for name, number in ROW.findall(page)}


def test_the_page_has_a_row_for_each():
    assert ceilings().keys() == MEASURES.keys()


@pytest.mark.parametrize("name", MEASURES)
def test_it_is_no_more_than_the_page_says(name):
    folder, count = MEASURES[name]
    counted = sum(count(text) for path, text in texts().items() if path.startswith(folder))
    assert 0 < counted <= ceilings()[name]


SAMPLE = """
def f(a, b, c, d, e, g): from x import y
def h(self, a, b, *, c, d, e, contract): return contract.delta + self.contract.saturate
"""


@pytest.mark.parametrize(("name", "due"), [*zip(MEASURES, (1, 1, 2, 2, 1, 1), strict=True)])
def test_a_sample_is_counted_right(name, due):
    assert MEASURES[name][1](SAMPLE) == due
