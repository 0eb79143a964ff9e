"""Kernels that end the process they compute in, or say which GPU they see."""

import os
import signal
from dataclasses import replace
from pathlib import Path

from numpy_attention import Attention

from dmverify.conformance.adapter import Unsupported

FOLDER = "FOLDER_OF_TEST"  # names a folder of the test
DEADLY = 7  # queries of the case that nobody survives
LAST = 3  # the call that the first process does not survive


def _end():
    os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce(Attention):
    """The process that first comes to its third call is killed there."""

    calls = 0

    def forward(self, case):
        self.calls += 1
        if self.calls == LAST:
            try:
                (Path(os.environ[FOLDER]) / "died").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                _end()
        return super().forward(case)


class Deadly(Attention):
    """One case kills whoever asks it."""

    def forward(self, case):
        if case.problem.queries == DEADLY:
            _end()
        return super().forward(case)


class Declines(Attention):
    """Serves neither the first case nor every other one."""

    def supports(self, case):
        return super().supports(case) if case.problem.queries == 5 else Unsupported("too short")


class Threads(Attention):
    """Says how many threads the environment of its process names."""

    @property
    def info(self):
        return replace(super().info, device=os.environ.get("OMP_NUM_THREADS", "any"))


class OnGpu(Attention):
    """Notes which GPU its process sees, and which process that is."""

    @property
    def info(self):
        return replace(super().info, device="made-up GPU")

    def forward(self, case):
        seen = f"{os.environ.get('CUDA_VISIBLE_DEVICES', '')} {os.getpid()} {os.getppid()}"
        (Path(os.environ[FOLDER]) / seen).touch()
        return super().forward(case)
