"""Options of pytest that ask for a kernel's tests without a test file."""

from __future__ import annotations

import pytest

from dmverify.ci.suite import LEVEL, Suite
from dmverify.errors import InputError

PREFIX = "--dmverify-"
OF_KERNEL = (
    "contract",
    "seed",
    "case",
    "check",
    "inputs",
    "causal",
    "softmax-scale",
    "timeout",
    "in-process",
)
"""Options that mean nothing without a kernel; as they are by default, each is false."""
MASKS = {"yes": True, "no": False}


def add(parser: pytest.Parser) -> None:
    """Adds them to pytest's own."""
    group = parser.getgroup("dmverify", "conformance of an FP8 attention kernel")
    group.addoption(f"{PREFIX}kernel", metavar="KERNEL", help="Judge this kernel, a test a case.")
    group.addoption(f"{PREFIX}contract", metavar="C", default="", help="By this contract.")
    group.addoption(f"{PREFIX}level", metavar="LEVEL", default=LEVEL, help="smoke or full.")
    group.addoption(f"{PREFIX}seed", metavar="N", type=int, default=0, help="First seed.")
    group.addoption(
        f"{PREFIX}case",
        metavar="ID",
        action="append",
        default=[],
        help="Case id or pattern to ask instead of the level; repeatable.",
    )
    group.addoption(
        f"{PREFIX}check",
        metavar="ID",
        action="append",
        default=[],
        help="Check to run instead of all; repeatable.",
    )
    group.addoption(
        f"{PREFIX}inputs",
        metavar="FILE[:PREFIX]",
        action="append",
        default=[],
        help="Tensors to ask instead of the level: safetensors, npz or pt; repeatable.",
    )
    group.addoption(
        f"{PREFIX}causal", choices=tuple(MASKS), help="Mask of inputs that do not say it."
    )
    group.addoption(
        f"{PREFIX}softmax-scale", metavar="X", type=float, help="Of inputs that do not say it."
    )
    group.addoption(f"{PREFIX}timeout", metavar="S", type=float, help="Seconds for one answer.")
    group.addoption(
        f"{PREFIX}in-process",
        action="store_true",
        help="Run the kernel in the process of pytest.",
    )
    group.addoption(
        f"{PREFIX}min-served",
        metavar="F",
        type=float,
        default=0.0,
        help="Fail if the kernel serves less than this fraction of its cases.",
    )


def _require_nothing_asked(config: pytest.Config) -> None:
    said = [f"{PREFIX}{name}" for name in OF_KERNEL if config.getoption(f"{PREFIX}{name}")]
    said += [f"{PREFIX}level"] * (config.getoption(f"{PREFIX}level") != LEVEL)
    if said:
        error = InputError(
            f"{', '.join(said)} without {PREFIX}kernel",
            rule=f"these options say what the kernel of {PREFIX}kernel is asked; a suite in a test "
            "file says its own",
            fix=f"add {PREFIX}kernel, or pass them to dmverify.conformance_tests; -k chooses cases",
        )
        raise pytest.UsageError(str(error))


def suite_of(config: pytest.Config) -> Suite | None:
    """What the options ask for; None if they name no kernel.

    Raises:
        UsageError: For options of a kernel without its name: suites in files say their own.
    """
    kernel = config.getoption(f"{PREFIX}kernel")
    if not kernel:
        _require_nothing_asked(config)
        return None
    return Suite(
        kernel,
        config.getoption(f"{PREFIX}contract"),
        config.getoption(f"{PREFIX}level"),
        config.getoption(f"{PREFIX}seed"),
        tuple(config.getoption(f"{PREFIX}case")),
        tuple(config.getoption(f"{PREFIX}check")),
        config.getoption(f"{PREFIX}timeout"),
        config.getoption(f"{PREFIX}in-process"),
        tuple(config.getoption(f"{PREFIX}inputs")),
        MASKS.get(config.getoption(f"{PREFIX}causal")),
        config.getoption(f"{PREFIX}softmax-scale"),
    )
