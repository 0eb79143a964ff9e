"""What a project asks of its kernel, in one line of a test file or by options of pytest.

test_conformance = dmverify.conformance_tests("my_package.kernels:attention")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmverify.conformance.words import several
from dmverify.errors import InputError

LEVEL = "smoke"


@dataclass(frozen=True)
class Suite:
    """A kernel, and what it is asked; every field as for ``dmverify.verify``.

    Attributes:
        kernel: Its name.
        contract: Name or file of a contract; empty for the kernel's own.
        level: Which cases.
        seed: First seed of the drawn cases.
        cases: Ids or patterns to ask instead of the level.
        checks: Ids of the checks to run instead of all.
        timeout: Seconds for one answer; None sets no limit.
        in_process: Whether the kernel runs in the process of pytest.
        inputs: Files of tensors, whose cases are asked instead of the level.
        causal: Whether later keys are hidden in inputs that do not say it.
        softmax_scale: Softmax scale of inputs that do not state it.
    """

    kernel: str
    contract: str = ""
    level: str = LEVEL
    seed: int = 0
    cases: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    timeout: float | None = None
    in_process: bool = False
    inputs: tuple[str, ...] = ()
    causal: bool | None = None
    softmax_scale: float | None = None


def conformance_tests(
    kernel: str,
    contract: str = "",
    *,
    level: str = LEVEL,
    seed: int = 0,
    cases: Sequence[str] = (),
    checks: Sequence[str] = (),
    timeout: float | None = None,
    in_process: bool = False,
    inputs: Sequence[str] = (),
    causal: bool | None = None,
    softmax_scale: float | None = None,
) -> Suite:
    """Tests of a kernel, one a case; pytest collects them from any module that holds the result.

    Args:
        kernel: A name that ``dmverify verify`` takes: ``pkg.module:object``, ``proc:COMMAND``, one
            that a package offers.
        contract: Name or file of a contract; empty for the kernel's own.
        level: ``smoke`` or ``full``.
        seed: First seed of the drawn cases.
        cases: Ids or patterns to ask instead of the level.
        checks: Ids of the checks to run instead of all.
        timeout: Seconds for one answer; None sets no limit.
        in_process: Whether the kernel runs in the process of pytest.
        inputs: Files of tensors, ``FILE`` or ``FILE:PREFIX``, whose cases are asked instead of the
            level; relative to where pytest is started.
        causal: Whether later keys are hidden in inputs that do not say it.
        softmax_scale: Softmax scale of inputs that do not state it.

    Returns:
        What pytest expands when it collects; wrong names are errors then.

    Raises:
        InputError: For one text where several are due, and a kernel that has no name.
    """
    if not isinstance(kernel, str):
        raise InputError(
            f"a kernel of type {type(kernel).__name__}",
            rule="tests ask a kernel by its name, in a process of its own",
            fix="pass 'pkg.module:object'",
        )
    return Suite(
        kernel,
        contract,
        level,
        seed,
        several("cases", cases),
        several("checks", checks),
        timeout,
        in_process,
        several("inputs", inputs),
        causal,
        softmax_scale,
    )
