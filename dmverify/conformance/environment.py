"""What a process is told that dmverify starts: one BLAS thread, and where modules are.

One thread unless the environment names a number. How many threads share a matrix product can change
its last bits, and by default it is the number of cores. A kernel would then answer one thing alone
and another beside seven more of its kind, and a report would depend on the machine and on ``-j``;
and N processes of N threads each are slower than N of one. A kernel with threads of its own is left
as it is. To try one with several threads of OpenMP, where a race may hide, say OMP_NUM_THREADS=8.

Not covered: a kernel in the process of the caller, whose libraries are loaded by then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def one_thread() -> dict[str, str]:
    """Variables for the environment of a process."""
    return {name: os.environ.get(name, "1") for name in THREADS}


def of_python() -> dict[str, str]:
    """The environment of a process in Python, which finds every module that this one does.

    Start it with ``-P``: else the folder that the command is given in comes first there, and a
    file in it hides what is installed.
    """
    places = (text or str(Path.cwd()) for text in sys.path)  # "" in a notebook
    return {"PYTHONPATH": os.pathsep.join(places), **one_thread()}
