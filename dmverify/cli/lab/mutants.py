"""The mutants of the CUDA kernel in two steps, for a GPU on another machine than the judge."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER, say
from dmverify.lab.mutants.catalogue import chosen
from dmverify.lab.mutants.cuda.drive import run_tasks, tasks_of
from dmverify.lab.mutants.cuda.prepare import prepare
from dmverify.lab.mutants.cuda.table import MUTATIONS

mutants_argument = click.argument("mutants", nargs=-1, metavar="[MUTANT]...")


@click.command()
@mutants_argument
def compile_faults(mutants: tuple[str, ...]) -> None:
    """Compile MUTANT, or every faulty CUDA kernel, into $DMVERIFY_CACHE; needs no GPU."""
    prepare(chosen(mutants, MUTATIONS), progress=say)


@click.command()
@click.argument("folder", type=FOLDER)
@mutants_argument
def run_faults(folder: Path, mutants: tuple[str, ...]) -> None:
    """Run MUTANT, or all, on this Hopper GPU and keep the answers in FOLDER, unjudged.

    'dmverify faults --kernel bundled --answers FOLDER' judges them anywhere.
    """
    run_tasks(tasks_of(chosen(mutants, MUTATIONS)), folder, progress=say)
