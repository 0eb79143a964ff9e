"""Every name that a page gives a reader exists, and a wrong one is found out."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

import dmverify
import dmverify.kernel
from dmverify.cli.main import cli

ROOT = Path(dmverify.__file__).parent.parent
PAGES = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
IMPORT = re.compile(r"\bfrom (dmverify[\w.]*) import (\w+(?:, \w+)*)")
COMMAND = re.compile(r"`dmverify ([^`]*)`|^(?:\$ | {4,})dmverify (.*)$", re.M)
MODULE = re.compile(r"python -m (dmverify[\w.]*)")
PLACE = re.compile(r"(?<![\w/.-])((?:dmverify|proofs|kernel|docs|examples|tests)/[\w/.-]*\w)")


def missing(text):
    """What a text names that does not exist: imports, modules, verbs, options, places."""
    found = set()
    for module, names in IMPORT.findall(text):
        for name in names.split(", "):
            if not hasattr(import_module(module), name):
                found.add(f"{module}.{name}")
    for line in COMMAND.findall(text):
        found |= set(unknown_words("".join(line).split()))
    found |= {name for name in MODULE.findall(text) if find_spec(name) is None}
    return found | {path for path in PLACE.findall(text) if not (ROOT / path).exists()}


def unknown_words(words):
    """The verbs and options of a command line that the command does not have."""
    command = cli
    for word in words:
        if word.startswith("-"):
            options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            if word.partition("=")[0] not in {*options, "-h", "--help"}:
                yield word
        elif isinstance(command, click.Group):
            under = command.get_command(click.Context(command), word)
            if under is None:
                yield word
                return
            command = under


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_what_exists(page):
    assert missing((ROOT / page).read_text(encoding="utf-8")) == set()


def test_the_readme_is_short_and_names_much():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert IMPORT.search(text)
    assert COMMAND.search(text)
    assert PLACE.search(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`from dmverify.kernel import dm_attn_fun`", "dmverify.kernel.dm_attn_fun"),
        ("run `dmverify serch KERNEL`", "serch"),
        ("run `dmverify lab kils`", "kils"),
        ("run `dmverify verify KERNEL --cases lengths`", "--cases"),
        ("$ dmverify contract guess KERNEL --case x", "--case"),
        ("    dmverify lab kills --kils 3", "--kils"),
        ("see `dmverify/spec/no-such.py`", "dmverify/spec/no-such.py"),
        ("see [this](docs/no-such.md#there)", "docs/no-such.md"),
        ("run `python -m dmverify.lab.no_such`", "dmverify.lab.no_such"),
    ],
)
def test_a_name_that_does_not_exist_is_found(text, name):
    assert missing(text) == {name}


@pytest.mark.parametrize("package", [dmverify, dmverify.kernel])
def test_a_package_gives_what_it_lists_and_nothing_else(package):
    for name in package.__all__:
        assert callable(getattr(package, name))
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = package.nothing_such


def test_a_kernel_is_built_without_torch():
    program = (
        "import sys; from dmverify.kernel import build; assert 'torch' not in sys.modules;"
        "from dmverify.kernel import dm_attn_func; assert 'torch' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
