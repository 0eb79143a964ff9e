"""Where results and progress go: stdout and stderr."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dmverify.conformance.events import CaseDone, CaseStarted, Event, Listener, RunStarted
from dmverify.conformance.words import all_visible

WIDTH = 120  # of a pipe or a file, where there is no terminal to ask

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
served_option = click.option(
    "--require-served",
    metavar="FRACTION",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Fraction of the cases that must not be declined, from 0 to 1.",
)

error_option = click.option(
    "--max-error",
    metavar="OUTPUT=NUMBER",
    multiple=True,
    help="Largest error from float64 attention that a case may have, as dq=0.1; repeatable.",
)


def console() -> Console:
    """The console of results, on stdout."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH)


def print_json(value: Any) -> None:
    """One JSON document on stdout, every text in it fit to show."""
    click.echo(json.dumps(all_visible(value), indent=1, allow_nan=False))


@contextmanager
def _set_aside() -> Iterator[None]:
    """Stands in for stdout and stderr, which a kernel may fill or close, and puts them back.

    Libraries write to the descriptors and not to Python's streams, so those are replaced too.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as it is where the descriptor was closed from the start
            stream.flush()
    kept = {number: os.dup(number) for number in (1, 2) if _is_open(number)}
    aside = os.fdopen(os.dup(kept[2]) if 2 in kept else os.open(os.devnull, os.O_WRONLY), "w")
    try:
        os.dup2(aside.fileno(), 1)
        with redirect_stdout(aside), redirect_stderr(aside):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C has buffered would follow the results
        with suppress(OSError, ValueError):
            aside.close()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@contextmanager
def progress() -> Iterator[Listener]:
    """A listener that draws a bar on stderr, if that is a terminal.

    While it is open, what a kernel prints goes to stderr: stdout is for results.
    """
    errors = Console(file=sys.stderr, stderr=True)
    with (
        _set_aside(),
        Progress(
            TextColumn("{task.fields[kernel]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        ) as bar,
    ):
        tasks = []

        def listen(event: Event) -> None:
            match event:
                case RunStarted(kernel=kernel, cases=cases):
                    tasks.append(bar.add_task("", total=cases, kernel=kernel))
                case CaseStarted(case=case):
                    bar.update(tasks[-1], description=case)
                case CaseDone():
                    bar.advance(tasks[-1])

        yield listen
