"""``dmverify attack``, with torch: the search, or the inputs of a corpus, as the options say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dmverify.attack.corpus import Entry, write_entry
from dmverify.attack.objective import read_objective
from dmverify.attack.run import Settings, asked_corpus, asked_of, run
from dmverify.attack.shipped import SHIPPED, read_indexed, write_index
from dmverify.attack.show import as_plain, plain_distances, show, show_corpus
from dmverify.attack.starts import from_capture, read_percent, read_shape
from dmverify.cli.output import console, print_json
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.resolve import resolve_kernel
from dmverify.files import prepare_file, prepare_folder

if TYPE_CHECKING:
    from dmverify.cli.attack import Options


def search(kernel: str, options: Options) -> None:
    """Searches, writes the worst input, asks it of other kernels, and shows all."""
    settings = settings_of(kernel, options)
    for name in options.others:
        resolve_kernel(name, in_process=True)  # a wrong name is told before the search
    if options.out is not None:
        _prepare(options.out)
    seeds, jobs = range(options.seeds), options.jobs
    result = run(settings, seeds, jobs=jobs, tell=lambda line: click.echo(line, err=True))
    elsewhere = {
        name: asked_of(result.entry, name, settings.contract, settings.objective)
        for name in options.others
    }
    path = None if options.out is None else _written(options.out, result.entry)
    shown = as_plain(result) | {
        "on": {name: plain_distances(found) for name, found in elsewhere.items()},
        "file": "" if path is None else str(path),
    }
    if options.as_json:
        print_json(shown)
    else:
        show(shown, console())


def _is_corpus(out: Path) -> bool:
    """Whether a find gets its name by content, in a folder."""
    return out.is_dir() or out.suffix != ".safetensors"


def _prepare(out: Path) -> None:
    prepare_folder(out) if _is_corpus(out) else prepare_file(out)


def _written(out: Path, entry: Entry) -> Path:
    """The file; a folder's index knows it."""
    path = write_entry(out, entry)
    if _is_corpus(out):
        write_index(out)
    return path


def ask_corpus(kernel: str, options: Options) -> None:
    """Asks the inputs of a corpus and shows what came out."""
    folder = SHIPPED if options.corpus == "shipped" else Path(options.corpus or "")
    rows = asked_corpus(kernel, name_of(options.contract), read_indexed(folder))
    if options.as_json:
        print_json({"rows": rows})
    else:
        show_corpus(rows, console())


def name_of(contract: str) -> str:
    """The name of a contract that may be a file; empty for the kernel's own."""
    return resolve_contract(contract).name if contract else ""


def settings_of(kernel: str, options: Options) -> Settings:
    """What the options say.

    Raises:
        InputError: For a shape or a percentage that is none.
    """
    problem, centre = read_shape(options.shape, causal=options.causal), None
    if options.capture is not None:
        problem, centre = from_capture(options.capture, options.tokens)
    return Settings(
        kernel=kernel,
        contract=name_of(options.contract),
        problem=problem,
        objective=read_objective(options.maximise, options.against),
        limits=options.limits,
        centre=centre,
        within=read_percent(options.within),
        evaluations=options.evaluations,
        seconds=None if options.minutes is None else 60 * options.minutes,
        state=options.state,
        device=options.device,
        device_evaluations=options.device_evaluations,
        engine=options.engine,
    )
