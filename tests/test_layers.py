"""Imports only point down the layers, and the rule can fail."""

import ast
import re
from pathlib import Path

import pytest

import dmverify

ROOT = Path(dmverify.__file__).parent

# Who may import whom, by top folder. ``dmverify.errors`` may be imported by all but the kernel.
ALLOWED = {
    "spec": {"spec"},
    "conformance": {"spec", "conformance", "kernel"},
    "lab": {"spec", "conformance", "kernel", "attack", "lab"},
    "proofs": {"spec", "proofs"},
    "kernel": {"kernel"},
    "studies": {"spec", "conformance", "kernel", "attack", "studies"},
    "attack": {"spec", "conformance", "attack"},
    "ci": {"spec", "conformance", "ci"},
    "cli": {"spec", "conformance", "lab", "studies", "proofs", "attack", "ci", "cli", "kernel"},
}
# Third-party modules that a layer must not import anywhere.
FORBIDDEN = {
    "spec": {"torch", "z3", "cvc5", "bitwuzla", "click", "rich", "safetensors", "hypothesis"},
    "conformance": {"z3", "cvc5", "bitwuzla", "click"},
    "lab": {"z3", "cvc5", "bitwuzla"},
    "studies": {"z3", "cvc5", "bitwuzla", "click"},
    "attack": {"z3", "cvc5", "bitwuzla", "click"},
    "ci": {"torch", "z3", "cvc5", "bitwuzla", "click"},
    "cli": {"z3", "cvc5", "bitwuzla"},
    "kernel": {"z3", "cvc5", "bitwuzla", "flint", "click", "rich", "safetensors"},
    "proofs": {"torch", "click", "rich"},
}
# Where torch may be imported: kernels under test, training, GPU programs, files for torch to read.
TORCH_HOMES = (
    "conformance/kernels",
    "conformance/captures",
    "conformance/tensor_files/bfloat16.py",
    *(
        f"lab/{folder}"
        for folder in ("captures", "probes", "acceptance", "bench", "mutants", "third_party")
    ),
)
FLINT_HOME = ("spec/arithmetic/exact.py", "spec/ledger")


def imports(source: str) -> set[str]:
    """Absolute names of the modules that a source text imports, or writes as a text to import."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"^dmverify(?:\.\w+)+(?=$|:)", node.value))
    return found


def violations(layer: str, source: str) -> set[str]:
    """The imports of a source text that its layer forbids."""
    names = imports(source)
    wrong = {name for name in names if name.split(".")[0] in FORBIDDEN[layer]}
    for name in names:
        parts = name.split(".")
        inside = parts[0] == "dmverify" and len(parts) > 1 and parts[1] in ALLOWED
        if inside and parts[1] not in ALLOWED[layer]:
            wrong.add(name)
        if layer == "kernel" and name.startswith("dmverify.errors"):
            wrong.add(name)
    return wrong


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_imports_point_down(layer):
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in sorted((ROOT / layer).rglob("*.py"))
        if (wrong := violations(layer, path.read_text()))
    }
    assert found == {}


def test_torch_and_flint_stay_home():
    for path in [p for layer in ALLOWED for p in (ROOT / layer).rglob("*.py")]:
        where, names = str(path.relative_to(ROOT)), imports(path.read_text())
        if "torch" in names and where.startswith(("spec", "conformance", "lab")):
            assert where.startswith(TORCH_HOMES), where
        if "flint" in names and where.startswith("spec"):
            assert where.startswith(FLINT_HOME), where


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("spec", "import torch"),
        ("spec", "def f():\n    from z3 import Int"),
        ("spec", "from dmverify.conformance import store"),
        ("spec", "from dmverify import proofs"),
        ("conformance", "import dmverify.cli.list"),
        ("conformance", "def f():\n    from dmverify.lab.mutants import MUTANTS"),
        ("conformance", "import_module('dmverify.lab.mutants')"),
        ("studies", "import dmverify.lab"),
        ("kernel", "from dmverify.errors import InputError"),
        ("kernel", "from dmverify.spec.formats import E4M3"),
        ("proofs", "from dmverify.conformance.store import load"),
    ],
)
def test_the_rule_can_fail(layer, source):
    assert violations(layer, source)


def test_lines_per_file():
    """A file is read in one sitting: 400 lines at most."""
    sources = [
        path
        for folder in (*(ROOT / layer for layer in ALLOWED), Path(__file__).parent)
        for pattern in ("*.py", "*.cu", "*.cuh")
        for path in folder.rglob(pattern)
    ]
    assert Path(__file__) in sources
    long = {
        str(path): count for path in sources if (count := len(path.read_text().splitlines())) > 400
    }
    assert long == {}
