"""The faults of the CUDA kernel in two steps, for a GPU on another machine than the judge.

python -m dmverify.conformance.faults.cuda compile         every cubin, into $DMVERIFY_CACHE
python -m dmverify.conformance.faults.cuda run FOLDER      on the GPU: answers, unjudged
dmverify faults --kernel bundled --answers FOLDER          anywhere: the kill matrix
"""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.conformance.faults.cuda.drive import run_tasks, tasks_of
from dmverify.conformance.faults.cuda.prepare import prepare
from dmverify.conformance.faults.cuda.table import CUDA_FAULTS, get_cuda_fault


def progress(line: str) -> None:
    """One line on standard error."""
    click.echo(line, err=True)


@click.group()
def main() -> None:
    """Faults of the CUDA kernel."""


@main.command("compile")
@click.argument("faults", nargs=-1)
def compile_all(faults: tuple[str, ...]) -> None:
    """Compile FAULT, or all."""
    prepare([get_cuda_fault(name) for name in faults] or CUDA_FAULTS, progress=progress)


@main.command("run")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("faults", nargs=-1)
def run_all(folder: Path, faults: tuple[str, ...]) -> None:
    """Run FAULT, or all, and the correct kernel; answers go to FOLDER."""
    chosen = [get_cuda_fault(name) for name in faults] or CUDA_FAULTS
    run_tasks(tasks_of(chosen), folder, progress=progress)


if __name__ == "__main__":
    main()
