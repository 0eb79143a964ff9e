"""Ctrl-C as the end of a run, whose findings until then are kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Stop:
    """Whether Ctrl-C was pressed."""

    pressed: bool = False


@contextmanager
def until_ctrl_c(stop: Stop) -> Iterator[None]:
    """Leaves its block when the signal comes, but not for a kernel that raises KeyboardInterrupt.

    Args:
        stop: Where it is noted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where no signal arrives
        return

    def press(number: int, frame: object) -> None:
        stop.pressed = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield
    except KeyboardInterrupt:
        if not stop.pressed:
            raise
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)  # None: not set by Python
