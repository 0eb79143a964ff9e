"""The drawing of the modules has no circle, and the test sees one where it is."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dmverify

ROOT = Path(dmverify.__file__).parent


def modules(root):
    """Path of every module below a package, by name."""
    found = {}
    for path in sorted(p for top in (root, *root.glob("*/")) for p in top.rglob("*.py")):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(tree, *, everywhere):
    """The import statements that run when the module is imported, or all that it has.

    What is imported for type checkers alone does not run.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif everywhere or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from statements(node, everywhere=everywhere)


def imported(name, path, known, *, everywhere):
    """The modules that a module imports, by the longest known name."""
    found = set()
    for node in statements(ast.parse(path.read_text()), everywhere=everywhere):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join((*above, *filter(None, [node.module])))
            names = [f"{base}.{alias.name}" for alias in node.names]
        for text in names:
            while text and text not in known:
                text = text.rpartition(".")[0]
            found |= {text} - {"", name}
    return found


def circle(root, *, everywhere=False):
    """The modules of one circle; empty if there is none."""
    known = modules(root)
    graph = {n: imported(n, path, known, everywhere=everywhere) for n, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def packages(root):
    """What the modules of each package import of other packages, and no part of one another.

    An arrow from a package to one inside it, or back, is the package's own matter.
    """
    known = modules(root)

    def home(name):
        return name if known[name].stem == "__init__" else name.rpartition(".")[0]

    graph = {}
    for name, path in known.items():
        for other in imported(name, path, known, everywhere=True):
            here, there = home(name), home(other)
            if not f"{here}.".startswith(f"{there}.") and not f"{there}.".startswith(f"{here}."):
                graph.setdefault(here, set()).add(there)
    return graph


def test_packages_have_no_circle():
    """Two packages that import each other are one, whatever their modules do."""
    graph = packages(ROOT)
    assert "dmverify.spec.attention" in graph["dmverify.spec.enclosure"]
    TopologicalSorter(graph).prepare()


def test_two_packages_that_import_each_other_are_found(tmp_path):
    for name, text in (("a", "from sample.b import low"), ("b", "from sample.a import low")):
        folder = tmp_path / "sample" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "low.py").write_text("")
        (folder / "high.py").write_text(text + "\n")
    (tmp_path / "sample" / "__init__.py").write_text("")
    assert circle(tmp_path / "sample", everywhere=True) == []
    with pytest.raises(CycleError):
        TopologicalSorter(packages(tmp_path / "sample")).prepare()


@pytest.mark.parametrize("everywhere", [False, True], ids=["when imported", "at any time"])
def test_imports_have_no_circle(everywhere):
    assert circle(ROOT, everywhere=everywhere) == []


@pytest.mark.parametrize(
    ("text", "everywhere"),
    [
        ("from sample import first", False),
        ("import sample.first", False),
        ("from . import first", False),
        ("from .first import f", False),
        ("class A:\n    from sample.first import f", False),
        ("def g():\n    from sample.first import f", True),
    ],
)
def test_a_circle_is_found(tmp_path, text, everywhere):
    root = tmp_path / "sample"
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "first.py").write_text("from sample.second import g\nf = 1\n")
    (root / "second.py").write_text(text + "\n")
    assert set(circle(root, everywhere=everywhere)) == {"sample.first", "sample.second"}


def test_what_only_a_type_checker_reads_is_no_circle(tmp_path):
    root = tmp_path / "sample"
    root.mkdir()
    (root / "first.py").write_text("import sample.second\n")
    (root / "second.py").write_text("if TYPE_CHECKING:\n    import sample.first\n")
    assert circle(root) == []
