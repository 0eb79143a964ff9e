"""How much memory a problem needs, said before anything of it is made.

An id such as ``constant-v/third,keys=2000000000@0`` is short, and its tensors are not. ``generate``
asks ``require_room`` first, so whatever takes an id from outside is guarded.

| part | bytes |
|---|---|
| inputs, outputs | 4 a number: both are held in float32 |
| drawing | ``DRAWING`` times the inputs, beside them: raw integers and numbers of 64 bits |

It is an estimate, not a bound: families and checks differ.
"""

from __future__ import annotations

import math
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from dmverify.errors import InputError
from dmverify.spec.problem import Problem

NUMBER = 4  # bytes
DRAWING = 11  # measured, with the inputs: 7.5 on gaussian/spread-2, 11.6 on constant-v/third
LARGE = 2**21  # numbers of all outputs; their bands take 42 bytes each
PAGE = os.sysconf("SC_PAGE_SIZE")
CGROUP, STATM = Path("/sys/fs/cgroup/memory.max"), Path("/proc/self/statm")


@dataclass(frozen=True)
class Estimate:
    """Bytes that a problem needs.

    Attributes:
        inputs: For q, k, v and dO.
        outputs: For O, LSE, dQ, dK, dV and delta.
        drawing: At the most while the inputs are made.
    """

    inputs: int
    outputs: int
    drawing: int

    @property
    def asking(self) -> int:
        """Bytes needed to make the inputs, or to hold them and the answer, whichever is more."""
        return max(self.drawing, self.inputs + self.outputs)


def estimate(problem: Problem) -> Estimate:
    """What a problem needs, in whole numbers that cannot overflow."""
    shapes = problem.shapes()
    sizes = {name: NUMBER * math.prod(map(int, shape)) for name, shape in shapes.items()}
    inputs = sum(sizes.pop(name) for name in ("q", "k", "v", "do"))
    return Estimate(inputs, sum(sizes.values()), inputs * (1 + DRAWING))


def is_large(problem: Problem) -> bool:
    """Whether what an answer is judged by is too long to be there at once.

    Args:
        problem: Its sizes.
    """
    return estimate(problem).outputs > LARGE * NUMBER


def limit() -> float:
    """Bytes for this process: of the machine, its container, what its own limit leaves."""
    machine = PAGE * os.sysconf("SC_PHYS_PAGES")
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    left = math.inf if own == resource.RLIM_INFINITY else max(own - _taken(), 0)
    return min(machine, _container(), left)


def _taken() -> int:
    """Addresses that this process has already, libraries among them; 0 where nothing says."""
    try:
        return PAGE * int(STATM.read_text().split()[0])
    except OSError:
        return 0


def require_room(problem: Problem, case: str) -> None:
    """Raises unless a problem can be asked on this machine.

    Args:
        problem: Its sizes.
        case: Its id, for the message.

    Raises:
        InputError: If it needs more memory than there is.
    """
    needed, room = estimate(problem).asking, limit()
    if needed > room:
        raise InputError(
            f"{case}, which needs about {_gigabytes(needed)}",
            rule=f"a case fits the memory of this process, {_gigabytes(room)}",
            fix="take smaller lengths, fewer heads, or a larger machine",
        )


def _container() -> float:
    try:
        return int(CGROUP.read_text())
    except (OSError, ValueError):  # none, or "max"
        return math.inf


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count < 1e30 else "more than 1e21 GB"
