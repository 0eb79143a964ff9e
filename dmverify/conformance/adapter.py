"""What a kernel under test looks like, and how its name becomes an object.

A kernel is any object with the members of ``Kernel``; it need not import this project. It says
which cases it serves and never returns something silently different for the others. A kernel that
can show its inside also has ``internals(case)`` (see ``Dumps``).
"""

from __future__ import annotations

import importlib
import shlex
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeAlias, runtime_checkable

from dmverify.conformance.kernels import KERNELS
from dmverify.errors import KernelError, UnknownNameError
from dmverify.spec.case import F32, Case, Internals, Outputs
from dmverify.spec.recording import Producer


@dataclass(frozen=True)
class Supported:
    """The kernel serves the case."""


@dataclass(frozen=True)
class Unsupported:
    """The kernel does not serve the case.

    Attributes:
        reason: Why, for the report.
    """

    reason: str


Support: TypeAlias = Supported | Unsupported


@dataclass(frozen=True)
class Forward:
    """What a forward pass returned.

    Attributes:
        o: (B, Nq, H, D), float32 holding whatever format the kernel stores.
        lse: Natural logarithm of the row's sum of exponentials, (B, H, Nq).
    """

    o: F32
    lse: F32


@runtime_checkable
class Kernel(Protocol):
    """A kernel under test."""

    @property
    def info(self) -> Producer:
        """What it is: name, source hash, build, device."""

    @property
    def contract(self) -> str:
        """Name of the contract that it promises, used when the caller names none."""

    def supports(self, case: Case) -> Support:
        """Whether it serves this problem under the case's contract."""

    def forward(self, case: Case) -> Forward:
        """Runs the forward pass."""

    def backward(self, case: Case) -> Outputs:
        """Runs forward and backward and returns every output."""


@runtime_checkable
class Dumps(Protocol):
    """A kernel that shows its inside."""

    def internals(self, case: Case) -> Internals | None:
        """The exact numbers of a run on this case; None where it cannot show them."""


_MEMBERS = ("info", "contract", "supports", "forward", "backward")


GROUP = "dmverify.kernels"  # of entry points, by which a package offers its kernels by name
PROCESS = "proc:"


def resolve_kernel(name: str, *, timeout: float | None = None) -> Kernel:
    """The kernel of a name, by the table above.

    Args:
        name: The name. A class or function is called without arguments.
        timeout: Seconds for one answer. A kernel of this process then runs in one of its own, where
            a hang or crash of it is a verdict.

    Raises:
        UnknownNameError: If there is no such kernel; the message offers close names.
        KernelError: If it cannot be loaded or started, lacks a member of ``Kernel``, or if the name
            is offered by two packages, or by one although a built-in kernel has it.
    """
    from dmverify.conformance.process import DEFAULT_TIMEOUT, ProcessKernel

    if name.startswith(PROCESS):
        limit = DEFAULT_TIMEOUT if timeout is None else timeout
        return ProcessKernel(name.removeprefix(PROCESS), timeout=limit)
    if timeout is not None:
        resolve_kernel(name)  # its errors are better here than in another process
        serve = [sys.executable, "-m", "dmverify.conformance.process.serve", name]
        return ProcessKernel(shlex.join(serve), timeout=timeout)
    if ":" in name:
        return _load(name)
    offered = offered_kernels()
    if name in offered:
        return _load(offered[name].value)
    if name not in KERNELS:
        known = [*KERNELS, *offered]
        near = get_close_matches(name, known) or sorted(known)
        raise UnknownNameError(
            f"kernel {name!r}",
            rule="a kernel is a name of the list, pkg.module:object or proc:COMMAND",
            fix=f"did you mean {' or '.join(near)}? 'dmverify list kernels' shows all",
        )
    return _load(KERNELS[name].target)


def offered_kernels() -> dict[str, EntryPoint]:
    """Kernels that installed packages offer, by name.

    Raises:
        KernelError: If a name is taken, by a built-in kernel or by another package.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.get(point.name)
        taken = point.name in KERNELS or (other is not None and other.value != point.value)
        if taken:
            raise KernelError(
                f"kernel {point.name!r} of {point.value}",
                rule=f"a name in the group {GROUP} is not that of another kernel",
                fix="rename it in the package's metadata, or name it pkg.module:object",
            )
        found[point.name] = point
    return found


def _load(target: str) -> Kernel:
    module_name, _, path = target.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise KernelError(
            f"{target!r} ({error})",
            rule="pkg.module:object names an importable object",
            fix="check the spelling, and that the module is installed or on PYTHONPATH",
        ) from error
    return require_kernel(_made(found, target), target)


def _made(found: object, target: str) -> object:
    """The object itself, or what a class or factory gives."""
    if not callable(found) or (isinstance(found, Kernel) and not isinstance(found, type)):
        return found
    try:
        return found()
    except Exception as error:
        raise KernelError(
            f"{target!r} raised {type(error).__name__}: {error}",
            rule="a kernel's class or factory is called without arguments",
            fix="name an object, or a factory that needs no arguments",
        ) from error


def require_kernel(kernel: object, name: str) -> Kernel:
    """The object, after checking that it has every member of ``Kernel``.

    Raises:
        KernelError: If a member is missing; the message names it.
    """
    missing = [member for member in _MEMBERS if not hasattr(kernel, member)]
    if missing:
        raise KernelError(
            f"{name!r} without {', '.join(missing)}",
            rule=f"a kernel has {', '.join(_MEMBERS)}",
            fix="add the missing members; dmverify.conformance.adapter.Kernel describes them",
        )
    assert isinstance(kernel, Kernel)
    return kernel
