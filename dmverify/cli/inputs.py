"""Options that say what is asked: files of tensors, and the seed of what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from dmverify.cli.records import as_record
from dmverify.conformance.tensor_files.source import Source, sources

_FILE = (
    "Tensors to ask: safetensors, npz or pt with q, k, v (batch, length, heads, head_dim) and "
    "perhaps do, o, lse, dq, dk, dv; several cases are named PREFIX.q. Repeatable."
)


@dataclass(frozen=True)
class Files:
    """What the options say.

    Attributes:
        files: ``FILE`` or ``FILE:PREFIX``.
        causal: Whether later keys are hidden, if the options say it.
        softmax_scale: Softmax scale, if the options state it.
    """

    files: tuple[str, ...]
    causal: bool | None
    softmax_scale: float | None

    def sources(self) -> tuple[Source, ...]:
        """The files; paths are absolute, since a kernel may change the directory.

        Raises:
            InputError: For a name that is none.
        """
        return sources(self.files, self.causal, self.softmax_scale)


def inputs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --inputs, --causal or --full, and --softmax-scale; the verb takes ``inputs: Files``."""
    command = as_record(Files, "inputs")(command)
    for option in (
        click.option(
            "--softmax-scale", type=float, help="Softmax scale of --inputs files that state none."
        ),
        click.option(
            "--causal/--full", default=None, help="Mask of --inputs files that state none."
        ),
        click.option("--inputs", "files", multiple=True, metavar="FILE[:PREFIX]", help=_FILE),
    ):
        command = option(command)
    return command


def seed_of(what: str) -> Callable[[Any], Any]:
    """``--seed`` of drawn numbers, at least 0.

    Args:
        what: What it is a seed of, for help.
    """
    at_least_0 = click.IntRange(min=0)
    return click.option("--seed", type=at_least_0, default=0, show_default=True, help=what)
