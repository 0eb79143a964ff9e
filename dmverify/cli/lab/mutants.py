"""Mutants: the CUDA kernel's in two steps, for a GPU on another machine; all on plain data."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER, out_option, say, write_record
from dmverify.lab.mutants.catalogue import chosen
from dmverify.lab.mutants.cuda.drive import run_tasks, tasks_of
from dmverify.lab.mutants.cuda.prepare import prepare
from dmverify.lab.mutants.cuda.table import MUTATIONS
from dmverify.lab.mutants.plain import make_table

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


@click.command()
@out_option
def plain(out: Path) -> None:
    """Ask which mutants N(0, 1) misses, in the sizes of the cases that show them; write a table."""
    write_record(out, make_table(say))
