"""Compares what a wheel and an sdist hold with what the repository tracks: ``packaged.py FILE...``.

| archive | holds |
|---|---|
| wheel | every tracked file below dmverify, kernel and proofs, and its own metadata |
| sdist | every tracked file that is not hidden; kernel and proofs lie inside dmverify |

A file that is missing, and one that nobody tracks, are errors.
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

LINKS = {"kernel": "dmverify/kernel", "proofs": "dmverify/proofs"}
MADE = ("PKG-INFO", "setup.cfg", "dmverify.egg-info/")  # by the build, in an sdist


def tracked(root: Path) -> set[str]:
    """Tracked files by the names that they have in an archive."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    )
    return {placed(name) for name in listed.stdout.splitlines()} - set(LINKS.values())


def placed(name: str) -> str:
    """A path of the repository as one of an archive, where the links are folders."""
    top, slash, rest = name.partition("/")
    return LINKS.get(top, top) + slash + rest


def held(archive: Path) -> set[str]:
    """The files in an archive, without what the build makes."""
    if archive.suffix == ".whl":
        names = zipfile.ZipFile(archive).namelist()
        return {name for name in names if ".dist-info/" not in name}
    with tarfile.open(archive) as tar:
        names = [one.name.partition("/")[2] for one in tar if not one.isdir()]
    return {name for name in names if not name.startswith(MADE)}


def due(archive: Path, files: set[str]) -> set[str]:
    """What an archive must hold."""
    if archive.suffix == ".whl":
        return {name for name in files if name.startswith("dmverify/")}
    return {name for name in files if not name.startswith(".")}


def differences(archive: Path, files: set[str]) -> list[str]:
    """One line a file that is missing or that nobody tracks."""
    found, wanted = held(archive), due(archive, files)
    return [
        *(f"{archive.name}: {name} is missing" for name in sorted(wanted - found)),
        *(f"{archive.name}: nobody tracks {name}" for name in sorted(found - wanted)),
    ]


if __name__ == "__main__":
    files = tracked(Path(__file__).parent.parent)
    lines = [line for path in sys.argv[1:] for line in differences(Path(path), files)]
    sys.exit("\n".join(lines) if lines else 0)
