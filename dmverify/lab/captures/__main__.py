"""Remake the committed captures, or check that remaking them gives the same bits.

``python -m dmverify.lab.captures [--check] [--oracle] [--output DIRECTORY]``

The settings of ``pinned`` that torch reads when it is imported are put into the environment by
starting the module again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy
import torch

from dmverify.conformance.captures.store import DATA, TENSORS, read_manifest
from dmverify.errors import DmverifyError
from dmverify.lab.captures import chars, choose, encoder
from dmverify.lab.captures.oracle import against_transformers, published_similarities
from dmverify.lab.captures.pinned import ENVIRONMENT, pin_torch
from dmverify.lab.captures.write import hashes, write

MODULE = "dmverify.lab.captures"
TEXT = "passages.txt"


def passages(text: str) -> list[str]:
    """Return the paragraphs of the text."""
    return text.strip().split("\n\n")


def _pin() -> None:
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        environment = os.environ | ENVIRONMENT
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]], environment)


def _make(text: str, *, oracle: bool) -> tuple[list[choose.Chosen], dict[str, Any]]:
    """Run both models; return the chosen captures and what the manifest says of their making."""
    pin_torch()
    model = encoder.load_encoder()
    similarities = published_similarities(model)
    loss, layers = encoder.training_step(model, passages(text))
    run = chars.train(text)
    captures = [*choose.choose_encoder(layers), *choose.choose_chars(run)]
    made = {
        "command": f"python -m {MODULE}" + " --oracle" * oracle,
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


def _compare(captures: list[choose.Chosen], directory: Path) -> int:
    """Report how many tensors have the committed bits; return 0 if all have."""
    committed = {
        f"{name}/{tensor}": entry["sha256"][tensor]
        for name, entry in read_manifest(directory)["captures"].items()
        for tensor in TENSORS
    }
    remade = hashes(captures)
    names = committed.keys() | remade.keys()
    wrong = sorted(name for name in names if committed.get(name) != remade.get(name))
    sys.stdout.write(f"{len(names) - len(wrong)} of {len(names)} tensors have the same bits\n")
    sys.stdout.writelines(f"differs: {name}\n" for name in wrong)
    return 1 if wrong else 0


def main() -> int:
    """Parse the arguments and run; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is committed")
    parser.add_argument("--oracle", action="store_true", help="compare with transformers, too")
    parser.add_argument("--output", type=Path, default=DATA, help="directory of the captures")
    arguments = parser.parse_args()
    text = (DATA / TEXT).read_text(encoding="ascii")
    try:
        captures, made = _make(text, oracle=arguments.oracle)
        if arguments.check:
            return _compare(captures, arguments.output)
        total = write(captures, made, arguments.output)
    except DmverifyError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{len(captures)} captures, {total} bytes\n")
    return 0


if __name__ == "__main__":
    _pin()
    sys.exit(main())
