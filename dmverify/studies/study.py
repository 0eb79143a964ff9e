"""What a study is and what it leaves: data for scripts, tables for people, pictures for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from dmverify.errors import InputError
from dmverify.files import write_atomically
from dmverify.studies.page import html_page
from dmverify.studies.plot import Plot, render

Progress: TypeAlias = Callable[[str], None]
"""Receives one line of text whenever a study gets somewhere."""


@dataclass(frozen=True)
class Table:
    """A table of finished text.

    Attributes:
        title: What it shows.
        columns: Headings.
        rows: Cells, as many a row as there are columns.
        note: What a reader needs to know to read it, or nothing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class StudyResult:
    """What a study found.

    Attributes:
        study: Its name.
        summary: The question, in one line.
        method: How it was measured, one paragraph a string.
        data: JSON-ready; numbers that do not exist are None.
        table_list: The tables in reading order.
        plots: The pictures, as data.
        command: What makes the data anew, from a fresh clone.
    """

    study: str
    summary: str
    method: tuple[str, ...]
    data: dict[str, Any]
    table_list: tuple[Table, ...]
    plots: tuple[Plot, ...]
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        """Study, command and data, ready for ``json.dumps`` (no NaN, no infinity)."""
        command = {"command": self.command} if self.command else {}
        return {"study": self.study} | command | self.data

    def asked(self, *, seeds: Sequence[int] | None, quick: bool) -> StudyResult:
        """The study's result with these options in its command."""
        drawn = [f"--seeds {','.join(map(str, seeds))}"] if seeds is not None else []
        words = (self.command, *drawn, *(["--quick"] if quick else []))
        return replace(self, command=" ".join(words))

    def tables(self) -> tuple[Table, ...]:
        """The tables, for a console."""
        return self.table_list

    def write(self, directory: Path) -> tuple[Path, ...]:
        """Writes JSON, one SVG a picture and an HTML page that holds them all.

        Everything is rendered before the first file is written, and each file appears whole.

        Returns:
            The paths written: data, pictures, page.

        Raises:
            DependencyError: If matplotlib is missing; then nothing is written.
        """
        pictures = {plot.name: render(plot) for plot in self.plots}
        files = {f"{self.study}.json": _json_text(self.to_json())}
        files |= {f"{self.study}-{name}.svg": svg for name, svg in pictures.items()}
        files[f"{self.study}.html"] = html_page(
            self.summary,
            self.method,
            self.table_list,
            list(zip(self.plots, pictures.values(), strict=True)),
        )
        directory.mkdir(parents=True, exist_ok=True)
        return tuple(write_atomically(directory / name, content) for name, content in files.items())


class StudyRun(Protocol):
    """How a study is started; ``Study.takes`` names further arguments, all optional."""

    def __call__(
        self,
        *,
        seeds: Sequence[int] | None = None,
        quick: bool = False,
        out: Path | None = None,
        progress: Progress | None = None,
    ) -> StudyResult:
        """Runs it.

        Args:
            seeds: Seeds of the inputs; None takes the study's own.
            quick: A reduced run, for a first look and for tests.
            out: A directory to write the result to, or None.
            progress: Told how far it is.

        Raises:
            InputError: For seeds that are negative, repeated or none at all.
        """


@dataclass(frozen=True)
class Study:
    """One row of the table of studies.

    Attributes:
        name: What users type.
        summary: One line.
        run: Starts it.
        takes: Further arguments of ``run``: ``inputs``, the files of tensors to measure,
            ``minutes``, after which a sitting ends.
    """

    name: str
    summary: str
    run: StudyRun
    takes: frozenset[str] = frozenset()


def whole(study: str) -> str:
    """The command that makes a study's data with its own seeds and sizes."""
    return f"dmverify study {study} --out DIR"


def checked_seeds(seeds: Sequence[int] | None, default: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds to use.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
    """
    if seeds is None:
        return default
    chosen = tuple(seeds)
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        raise InputError(
            f"seeds {list(chosen)}",
            rule="seeds are different integers >= 0, at least one",
            fix="pass for example --seeds 0,1,2",
        )
    return chosen


def _json_text(data: dict[str, Any]) -> str:
    """JSON with one line for each row of each list, so that files stay small and diffs readable."""
    parts = []
    for key, value in data.items():
        rows = value if isinstance(value, list) else []
        lines = [json.dumps(row, allow_nan=False) for row in rows]
        inside = (
            "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else json.dumps(value, allow_nan=False)
        )
        parts.append(f" {json.dumps(key)}: {inside}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
