"""What a kernel under test looks like, and how its name becomes an object.

A kernel is any object with the members of ``Kernel``; it need not import this project. It says
which cases it serves and never returns something silently different for the others. A kernel that
can show its inside also has ``internals(case)`` (see ``Dumps``).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from difflib import get_close_matches
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

    def internals(self, case: Case) -> Internals:
        """The exact numbers of a run on this case."""


_MEMBERS = ("info", "contract", "supports", "forward", "backward")


def resolve_kernel(name: str) -> Kernel:
    """The kernel called ``name``: a built-in one or ``pkg.module:object``.

    Args:
        name: A name of ``KERNELS``, or a module and an object in it. A class or function is called
            without arguments.

    Raises:
        UnknownNameError: If there is no such built-in kernel; the message offers close names.
        KernelError: If the module or object cannot be loaded or lacks a member of ``Kernel``.
    """
    if ":" in name:
        return _load(name)
    if name not in KERNELS:
        near = get_close_matches(name, KERNELS) or sorted(KERNELS)
        raise UnknownNameError(
            f"kernel {name!r}",
            rule="a kernel is a built-in name or pkg.module:object",
            fix=f"did you mean {' or '.join(near)}? 'dmverify list kernels' shows all",
        )
    return _load(KERNELS[name].target)


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
