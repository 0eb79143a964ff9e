"""Where results and progress go: stdout and stderr."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import (
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dmverify.conformance.events import CaseDone, CaseStarted, Event, Listener, RunStarted
from dmverify.conformance.words import all_visible, printable

PERIOD = 30.0  # seconds between two lines
WIDTH = 120  # of a pipe or a file, where there is no terminal to ask

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
served_option = click.option(
    "--min-served",
    metavar="FRACTION",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Least share of the cases that the kernel must serve, from 0 to 1.",
)

timeout_option = click.option(
    "--timeout", type=float, help="Seconds that the kernel has for an answer."
)
in_process_option = click.option(
    "--in-process",
    is_flag=True,
    help="Run KERNEL in this process: faster, but a crash of it ends dmverify too.",
)
error_option = click.option(
    "--max-error",
    metavar="OUTPUT=NUMBER",
    multiple=True,
    help="Largest error from attention in float64 that a case may have, as in dq=0.1; repeatable.",
)


class _Results(Console):
    """A console that says when nobody reads it any more; rich's own exits with 1, a verdict."""

    def on_broken_pipe(self) -> None:
        """What is left is for whoever prints (``pipes.reader_may_leave``)."""
        raise BrokenPipeError


def console() -> Console:
    """The console of results, on stdout."""
    found = _Results(highlight=False)
    return found if found.is_terminal else _Results(highlight=False, width=WIDTH)


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
    """A listener that draws a bar on stderr; if that is no terminal, it writes a line now and then.

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
        pulse = Pulse(time.monotonic)

        def listen(event: Event) -> None:
            pulse(event)
            match event:
                case RunStarted(kernel=kernel, cases=cases):
                    tasks.append(bar.add_task("", total=cases, kernel=kernel))
                case CaseStarted(case=case):
                    bar.update(tasks[-1], description=case)
                case CaseDone():
                    bar.advance(tasks[-1])

        with nullcontext() if errors.is_terminal else _beating(pulse, errors):
            yield listen


class Pulse:
    """What a run that draws no bar says of itself: cases done, and the time left.

    Args:
        clock: Seconds since some moment.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kernel, self._case = "", ""
        self._cases: int | None = None
        self._done, self._since = 0, clock()

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case RunStarted(kernel=kernel, cases=cases):
                self._kernel, self._cases = kernel, cases
                self._done, self._since = 0, self._clock()
            case CaseStarted(case=case):
                self._case = case
            case CaseDone():
                self._done += 1

    def line(self) -> str:
        """One line; empty before the first run and after its last case."""
        if not self._kernel or self._done == self._cases:
            return ""
        spent = self._clock() - self._since
        of = "" if self._cases is None else f" of {self._cases}"
        said = f"{self._kernel}: {self._done}{of} cases in {_minutes(spent)}, at {self._case}"
        if self._cases is None or not self._done:
            return said
        left = spent / self._done * (self._cases - self._done)
        return f"{said}, about {_minutes(left)} left"


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


@contextmanager
def _beating(pulse: Pulse, errors: Console) -> Iterator[None]:
    """Writes a line every ``PERIOD`` seconds, in cases that take longer too."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(PERIOD):
            if line := pulse.line():
                errors.print(printable(line), markup=False, soft_wrap=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
