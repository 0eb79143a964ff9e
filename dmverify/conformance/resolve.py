"""How the name of a kernel becomes an object.

| name | kernel |
|---|---|
| ``proc:COMMAND`` | a program of any language that speaks the protocol of ``process`` |
| ``pkg.module:object`` | an object, or a class or factory called without arguments |
| a name that an installed package offers | what its entry point in the group ``GROUP`` names |
| a name of ``KERNELS`` | a built-in one |
"""

from __future__ import annotations

import importlib
import shlex
import sys
from importlib.metadata import EntryPoint, entry_points

from dmverify.conformance.adapter import Kernel, require_kernel
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.process import DEFAULT_TIMEOUT, ProcessKernel
from dmverify.conformance.words import said
from dmverify.errors import KernelError, unknown_name

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
        rule = "a kernel is a name of the list, pkg.module:object or proc:COMMAND"
        raise unknown_name("kernel", name, known, rule=rule, shown_by="dmverify list kernels")
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(0) in a module would end the command as a pass
        raise KernelError(
            f"{target!r} ({said(error)})",
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise KernelError(
            f"{target!r} raised {said(error)}",
            rule="a kernel's class or factory is called without arguments",
            fix="name an object, or a factory that needs no arguments",
        ) from error
