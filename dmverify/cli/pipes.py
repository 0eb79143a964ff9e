"""What becomes of results whose reader left, as ``head`` does once it has seen enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Prints results to whoever reads them: ``| head`` that has seen enough is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        close_results()


def close_results() -> None:
    """Sends to nowhere what is still to be printed, and what Python flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
