"""What ``verify`` was called with, and which of it does not go together."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dmverify.conformance.events import Listener
from dmverify.conformance.expectations import Expectation
from dmverify.conformance.gpus import shows_gpu
from dmverify.conformance.interrupt import Stop
from dmverify.conformance.pool import Pool
from dmverify.conformance.recorded import recording_names
from dmverify.conformance.selection import SOAK, get_level
from dmverify.conformance.spread.plan import Spread
from dmverify.conformance.tensor_files import can_be_brought
from dmverify.errors import InputError

RANDOM, RANDOM_BITS = "random", 48


@dataclass(frozen=True)
class Options:
    """What ``verify`` was called with, beside the kernel."""

    contract: str | None
    level: str
    seed: int
    cases: tuple[str, ...]
    checks: tuple[str, ...]
    timeout: float | None
    in_process: bool
    minutes: float | None
    expect: Path | None
    expected: tuple[Expectation, ...]
    stop: bool
    reproduce: bool
    listener: Listener
    min_served: float = 0.0
    max_error: Mapping[str, float] = field(default_factory=dict)
    spread: Spread | None = None
    pool: Pool | None = None
    ctrl_c: Stop = field(default_factory=Stop)

    @property
    def endless(self) -> bool:
        """Whether the cases have no end."""
        return get_level(self.level).seeds is None and not self.cases

    @property
    def of_nothing_named(self) -> Options:
        """The options for what is judged beside the kernel that was chosen."""
        return replace(
            self, contract=None, cases=(), checks=(), timeout=None, in_process=False, minutes=None
        )


def read_seed(seed: int | str) -> int:
    """A seed, drawn if it is ``random``.

    Raises:
        InputError: If it is another text, or below 0.
    """
    if seed == RANDOM:
        return secrets.randbits(RANDOM_BITS)
    if not isinstance(seed, int) or seed < 0:
        raise InputError(
            f"seed {seed}",
            rule="a seed is a number >= 0, or 'random'",
            fix="pass --seed 0, or --seed random",
        )
    return seed


def require_level(kernel: object, options: Options) -> None:
    """Raises unless the level goes with the kernel and with what ends it.

    Args:
        kernel: As for ``verify``.
        options: What it was called with.

    Raises:
        InputError: For minutes of a level that has an end, or one without end of no single kernel.
    """
    level, minutes = options.level, options.minutes
    if minutes is not None and not options.endless:
        raise InputError(
            f"minutes={minutes:g} of level {level}",
            rule=f"only the level {SOAK} is ended by time, and named cases have no level",
            fix=f"add --level {SOAK}, or leave --minutes out",
        )
    recorded = isinstance(kernel, str) and kernel in recording_names()
    if options.endless and (kernel is None or recorded):
        raise InputError(
            f"level {level} without a kernel that runs",
            rule=f"{level} asks one kernel again and again, and recordings do not change",
            fix="name a kernel, such as simulation",
        )


def require_spreadable(kernel: object, options: Options) -> None:
    """Raises unless the cases can be spread.

    Args:
        kernel: As for ``verify``.
        options: What it was called with.

    Raises:
        InputError: For a level without end, for anything but the name of a kernel that runs, for
            one on a GPU within its worker, and for arrays of this process.
    """
    if options.endless:
        raise InputError(
            f"level {options.level} spread over workers or shards",
            rule="only a list of cases can be spread, and this level has no end",
            fix="name smoke or full, or cases with --case",
        )
    if not isinstance(kernel, str) or kernel in recording_names():
        what = "no kernel" if kernel is None else f"kernel {kernel!r}"
        raise InputError(
            f"{what} spread over workers or shards",
            rule="other processes ask a kernel that they can find by its name and run",
            fix="pass pkg.module:object, proc:COMMAND, or a name of 'dmverify list kernels'",
        )
    if options.in_process and options.spread is not None and options.spread.gpus:
        raise InputError(
            f"a kernel on gpus={options.spread.gpus:g} in the worker's process",
            rule="a process that has used a GPU stays on it, and a worker is given one or another",
            fix="leave --in-process out, or --gpus",
        )
    here = [case for case in options.cases if not can_be_brought(case)]
    if here:
        raise InputError(
            f"case {here[0]} spread over workers or shards",
            rule="other processes cannot see arrays of this one",
            fix="write them to a file, and name it with inputs",
        )


def may_divide(kernel: object, options: Options) -> bool:
    """Whether ``-j`` has whole cases judged by several processes, each with the kernel.

    Otherwise the kernel is asked by this process alone, and others make references (``pool``).

    Args:
        kernel: As for ``verify``.
        options: What it was called with.
    """
    named = isinstance(kernel, str) and kernel not in recording_names()
    elsewhere = named and not options.endless and all(map(can_be_brought, options.cases))
    return options.pool is not None and elsewhere and not shows_gpu()


def require_fraction(fraction: float) -> None:
    """Raises unless what has to be served is a fraction.

    Raises:
        InputError: Below 0 or above 1.
    """
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise InputError(
            f"min_served={fraction}",
            rule="min_served is the least fraction of the cases that a kernel serves",
            fix="pass a number from 0 to 1",
        )
