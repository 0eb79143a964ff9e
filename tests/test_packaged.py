"""The comparison of archives with the tree finds what is missing and what is too much."""

import io
import tarfile
import zipfile

import pytest

from tests.packaged import differences

FILES = {"dmverify/a.py", "dmverify/kernel/b.cu", "README.md", ".github/c.yml"}


def wheel(path, names):
    with zipfile.ZipFile(path / "one.whl", "w") as archive:
        for name in (*names, "dmverify-1.dist-info/RECORD"):
            archive.writestr(name, "")
    return path / "one.whl"


def sdist(path, names):
    with tarfile.open(path / "one.tar.gz", "w:gz") as archive:
        for name in (*names, "PKG-INFO"):
            archive.addfile(tarfile.TarInfo(f"dmverify-1/{name}"), io.BytesIO())
    return path / "one.tar.gz"


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (wheel, ["dmverify/a.py", "dmverify/kernel/b.cu"]),
        (sdist, ["dmverify/a.py", "dmverify/kernel/b.cu", "README.md"]),
    ],
)
def test_what_is_missing_or_unknown_is_found(make, names, tmp_path):
    assert differences(make(tmp_path, names), FILES) == []
    assert "a.py is missing" in differences(make(tmp_path, names[1:]), FILES)[0]
    assert "nobody tracks x.npz" in differences(make(tmp_path, [*names, "x.npz"]), FILES)[0]
