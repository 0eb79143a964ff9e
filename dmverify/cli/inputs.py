"""The options that name files of tensors, the same for every verb that asks cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dmverify.conformance.tensor_files.source import Source

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = (
    "Tensors to ask: safetensors, npz or pt with q, k, v (batch, length, heads, head_dim) and "
    "perhaps do, o, lse, dq, dk, dv; several cases are named PREFIX.q. Repeatable."
)


def inputs_options(command: Command) -> Command:
    """Adds --inputs, --causal or --full, and --softmax-scale to a verb."""
    for option in (
        click.option("--softmax-scale", type=float, help="Of --inputs without softmax_scale."),
        click.option("--causal/--full", default=None, help="Of --inputs without causal."),
        click.option("--inputs", "files", multiple=True, metavar="FILE[:PREFIX]", help=_FILE),
    ):
        command = option(command)
    return command


def sources(
    files: tuple[str, ...], causal: bool | None, softmax_scale: float | None
) -> tuple[Source, ...]:
    """What the options name; paths are absolute, since a kernel may change the directory."""
    found = (Source.parse(one, causal=causal, softmax_scale=softmax_scale) for one in files)
    return tuple(
        Source(Path(one.path).absolute(), one.prefix, causal, softmax_scale) for one in found
    )
