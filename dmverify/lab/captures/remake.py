"""Remake the committed captures, or check that remaking them gives the same bits.

``dmverify lab captures [--check] [--oracle] [--output DIRECTORY]``

The settings of ``pinned`` that torch reads when it is imported are put into the environment by
starting the command again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from dmverify.conformance.captures.store import TENSORS, read_manifest
from dmverify.lab.captures import chars, choose, encoder
from dmverify.lab.captures.oracle import against_transformers, published_similarities
from dmverify.lab.captures.pinned import ENVIRONMENT, pin_torch
from dmverify.lab.captures.write import hashes

COMMAND = ("lab", "captures")
TEXT = "passages.txt"


def passages(text: str) -> list[str]:
    """Return the paragraphs of the text."""
    return text.strip().split("\n\n")


def restart_pinned(words: Sequence[str]) -> None:
    """Starts the command again with the settings of ``pinned``; returns if it has them."""
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        program = [sys.executable, "-m", "dmverify", *COMMAND, *words]
        os.execve(sys.executable, program, os.environ | ENVIRONMENT)


def make(text: str, *, oracle: bool) -> tuple[list[choose.Chosen], dict[str, Any]]:
    """Run both models; return the chosen captures and what the manifest says of their making."""
    pin_torch()
    model = encoder.load_encoder()
    similarities = published_similarities(model)
    loss, layers = encoder.training_step(model, passages(text))
    run = chars.train(text)
    captures = [*choose.choose_encoder(layers), *choose.choose_chars(run)]
    made = {
        "command": " ".join(("dmverify", *COMMAND)) + " --oracle" * oracle,
        "environment": ENVIRONMENT,
        "versions": {
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "torch": torch.__version__,
            encoder.PACKAGE: model.version,
        },
        "text": {"file": TEXT, "sha256": hashlib.sha256(text.encode()).hexdigest()},
        "weights": {"package": encoder.PACKAGE, "sha256": encoder.WEIGHTS_SHA256},
        "selection": (choose.__doc__ or "").strip(),
        "minilm": {"loss": loss, "published_similarities": similarities},
        "chars": {"parameters": chars.PARAMETERS, "validation": run.validation},
        "oracle": against_transformers(model, passages(text)) if oracle else None,
    }
    return captures, made


def compare(captures: list[choose.Chosen], directory: Path) -> tuple[int, list[str]]:
    """How many tensors there are, and which have other bits than those of a directory."""
    committed = {
        f"{name}/{tensor}": entry["sha256"][tensor]
        for name, entry in read_manifest(directory)["captures"].items()
        for tensor in TENSORS
    }
    remade = hashes(captures)
    names = committed.keys() | remade.keys()
    return len(names), sorted(name for name in names if committed.get(name) != remade.get(name))
