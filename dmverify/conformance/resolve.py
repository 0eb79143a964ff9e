"""How the name of a kernel becomes an object.

| name | kernel | computes in |
|---|---|---|
| ``proc:COMMAND`` | a program that speaks the protocol of ``process`` | its own process |
| ``pkg.module:object`` | an object, or a class or factory called without arguments | the same |
| one that a package offers | what its entry point in the group ``GROUP`` names | the same |
| one of ``KERNELS`` | a built-in one | the same, if the table says so |

A kernel under test is taken to be honest and perhaps wrong: it may crash, hang, end its process,
corrupt memory or a GPU's context, and change what it shares with others. In a process of its own
none of that reaches the judge. The project's own kernels share the judge's process: a fault of
theirs would be one of this project. A process of its own has one BLAS thread (``environment``).

A module is looked for as Python does, and at last where the command is given: under pytest it is
found there, and the line that repeats a failure has to find it too.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import shlex
import sys
from importlib.metadata import EntryPoint, entry_points

from dmverify.conformance.adapter import MEMBERS, Kernel, require_kernel, require_unnamed
from dmverify.conformance.environment import of_python, one_thread
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.process import DEFAULT_TIMEOUT, ProcessKernel
from dmverify.conformance.words import describe_error
from dmverify.errors import (
    DependencyError,
    InputError,
    KernelError,
    naming_extras,
    unknown_name,
)

GROUP = "dmverify.kernels"  # of entry points, by which a package offers its kernels by name
PROCESS = "proc:"


def resolve_kernel(name: str, *, timeout: float | None = None, in_process: bool = False) -> Kernel:
    """The kernel of a name, by the table above.

    Args:
        name: The name. A class or function is called without arguments.
        timeout: Seconds for one answer, which also gives a built-in kernel a process of its own;
            None waits for ever, and for a ``proc:`` program ``DEFAULT_TIMEOUT``.
        in_process: Whether it computes in this process, faster and within reach of a debugger.

    Raises:
        UnknownNameError: If there is no such kernel; the message offers close names.
        InputError: For what has to be in this process, and has a limit or is a program.
        KernelError: If it cannot be loaded or started, lacks a member of ``Kernel``, or if the name
            is offered by two packages, or by one although a built-in kernel has it.
    """
    program = name.startswith(PROCESS)
    if in_process and (program or timeout is not None):
        raise InputError(
            f"kernel {name!r} in this process",
            rule="a program, or a kernel with a limit for its answers, has a process of its own",
            fix="leave out --timeout or --in-process, and name no proc:COMMAND with the latter",
        )
    if program:
        limit = DEFAULT_TIMEOUT if timeout is None else timeout
        return ProcessKernel(name.removeprefix(PROCESS), timeout=limit, environment=one_thread())
    target = _target(name)
    apart = name not in KERNELS or timeout is not None
    if in_process or not apart:
        return load_kernel(target)
    serve = [sys.executable, "-P", "-m", "dmverify.conformance.process.serve", target]
    return ProcessKernel(
        shlex.join(serve),
        timeout=math.inf if timeout is None else timeout,
        environment=of_python(),
    )


def under_test(
    kernel: str | Kernel, *, timeout: float | None = None, in_process: bool = False
) -> Kernel:
    """A kernel that may be judged: one of a name, or an object, which computes in this process.

    Args:
        kernel: Its name, or the object.
        timeout: As for ``resolve_kernel``.
        in_process: As for ``resolve_kernel``; an object is here whatever this says.

    Raises:
        DmverifyError: As ``resolve_kernel`` does.
        InputError: For a limit of an object, for one that answers by id, and for the specification.
    """
    if isinstance(kernel, str):
        name, found = kernel, resolve_kernel(kernel, timeout=timeout, in_process=in_process)
    elif timeout is not None:
        raise InputError(
            f"timeout {timeout:g} for an object",
            rule="only a kernel that has a name can run in a process of its own",
            fix="pass pkg.module:object",
        )
    else:
        name = type(kernel).__name__
        found = require_kernel(kernel, name)
    if getattr(found, "is_specification", False):
        raise InputError(
            f"kernel {name!r}",
            rule="a kernel is judged by something other than itself, and this one is the "
            "specification",
            fix="use it in 'dmverify replay', and verify a kernel of your own",
        )
    return require_unnamed(found, name)


def _target(name: str) -> str:
    """``module:object`` of a name."""
    if ":" in name:
        _look_here()
        return name
    offered = offered_kernels()
    if name in offered:
        return offered[name].value
    if name not in KERNELS:
        known = [*KERNELS, *offered]
        rule = "a kernel is a name of the list, pkg.module:object or proc:COMMAND"
        raise unknown_name("kernel", name, known, rule=rule, shown_by="dmverify list kernels")
    return KERNELS[name].target


def _look_here() -> None:
    """Behind all other places, so that no file here hides what is installed; workers get it too."""
    with contextlib.suppress(FileNotFoundError):  # the folder is gone
        if (here := os.getcwd()) not in sys.path:
            sys.path.append(here)


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


def load_kernel(target: str) -> Kernel:
    """The kernel ``module:object``, in this process.

    Raises:
        KernelError: If it cannot be loaded, or lacks a member of ``Kernel``.
        DependencyError: If it needs what an extra brings.
    """
    module_name, _, path = target.partition(":")
    try:
        with naming_extras():
            found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (KeyboardInterrupt, DependencyError):
        raise
    except BaseException as error:  # sys.exit(0) in a module would end the command as a pass
        raise KernelError(
            f"{target!r} ({describe_error(error)})",
            rule="pkg.module:object names an importable object",
            fix="check the spelling, and that the module is installed, here or on PYTHONPATH",
        ) from error
    return require_kernel(_made(found, target), target)


def _made(found: object, target: str) -> object:
    """The object itself, or what a class or factory gives."""
    is_kernel = all(hasattr(found, member) for member in MEMBERS)
    if not callable(found) or (is_kernel and not isinstance(found, type)):
        return found
    try:
        with naming_extras():
            return found()
    except (KeyboardInterrupt, DependencyError):
        raise
    except BaseException as error:
        raise KernelError(
            f"{target!r} raised {describe_error(error)}",
            rule="a kernel's class or factory is called without arguments",
            fix="name an object, or a factory that needs no arguments",
        ) from error
