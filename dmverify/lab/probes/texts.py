"""The CUDA C++ texts of all probes, and the hash that names a build."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dmverify.lab.probes.forms import FORMS
from dmverify.lab.probes.wgmma_source import source


def functions_text() -> str:
    """The text of the one-operand and arithmetic probes."""
    return Path(__file__).with_name("functions.cu").read_text(encoding="utf-8")


def texts() -> dict[str, str]:
    """Every probe text, by ``functions`` or the name of the wgmma form."""
    return {"functions": functions_text()} | {form.name: source(form) for form in FORMS}


def text_hash(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
