"""The mutants of the CUDA kernel in two steps, for a GPU on another machine than the judge.

    python -m dmverify.lab.mutants.cuda compile         every cubin, into $DMVERIFY_CACHE
    python -m dmverify.lab.mutants.cuda run FOLDER      on the GPU: answers, unjudged
    dmverify faults --kernel bundled --answers FOLDER          anywhere: the kill matrix

Ids of mutants after either verb choose among them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dmverify.lab.mutants.catalogue import chosen
from dmverify.lab.mutants.cuda.drive import run_tasks, tasks_of
from dmverify.lab.mutants.cuda.prepare import prepare
from dmverify.lab.mutants.cuda.table import MUTATIONS


def progress(line: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Compiles or runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    compiling, running = verbs.add_parser("compile"), verbs.add_parser("run")
    running.add_argument("folder", type=Path)
    for verb in (compiling, running):
        verb.add_argument("mutants", nargs="*", metavar="MUTANT")
    arguments = parser.parse_args()
    mutants = chosen(arguments.mutants, MUTATIONS)
    if arguments.verb == "compile":
        prepare(mutants, progress=progress)
    else:
        run_tasks(tasks_of(mutants), arguments.folder, progress=progress)


if __name__ == "__main__":
    main()
