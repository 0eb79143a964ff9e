"""Texts that ship with Python, by a fixed rule; other versions of Python have other texts.

| corpus | symbols, by a fixed rule |
|---|---|
| python-source | bytes of every ``*.py`` of the standard library, by path; at most 127 |
| python-manual | characters of ``pydoc_data.topics``, by name: the language reference |

site-packages and dist-packages are no part of the library. Of the manual, newline, tab and
printable ASCII are kept. Of every 10 blocks of 8,192 symbols the last one is held
out. A digest tells which text a run had.
"""

from __future__ import annotations

import hashlib
import string
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.errors import unknown_name

ALPHABET = "\t\n" + "".join(sorted(c for c in string.printable if c.isprintable()))
BLOCK, HELD = 8192, 10
OTHER = 127
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Corpus:
    """Symbols to train on, and those held out."""

    name: str
    training: Codes
    held_out: Codes
    digest: str

    def describe(self) -> dict[str, Any]:
        """Says for a record which text it was."""
        symbols = len(self.training) + len(self.held_out)
        return {"corpus": self.name, "symbols": symbols, "sha256": self.digest}


def python_source() -> Codes:
    """The standard library's source."""
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in root.rglob("*.py")
        if not {"site-packages", "dist-packages"} & set(path.parts)
    )
    text = np.frombuffer(b"\n".join(path.read_bytes() for _, path in files), np.uint8)
    return np.minimum(text, OTHER)


def python_manual() -> Codes:
    """The language reference, as indices of ``ALPHABET``."""
    place = {character: code for code, character in enumerate(ALPHABET)}
    whole = "\n".join(topics[name] for name in sorted(topics))
    return np.array([place[c] for c in whole if c in place], np.uint8)


CORPORA: MappingProxyType[str, Callable[[], Codes]] = MappingProxyType(
    {"python-source": python_source, "python-manual": python_manual}
)


@cache
def load_corpus(name: str) -> Corpus:
    """A corpus, divided.

    Raises:
        UnknownNameError: If there is none of that name.
    """
    if name not in CORPORA:
        raise unknown_name("corpus", name, CORPORA)
    codes = CORPORA[name]()
    digest = hashlib.sha256(codes.tobytes()).hexdigest()
    blocks = len(codes) // BLOCK
    pieces = codes[: blocks * BLOCK].reshape(blocks, BLOCK)
    held = np.arange(blocks) % HELD == HELD - 1
    return Corpus(name, pieces[~held].ravel(), pieces[held].ravel(), digest)
