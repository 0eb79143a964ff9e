"""Errors of the bundled kernel. It imports nothing of ours, so these are its own."""

from __future__ import annotations


class KernelError(Exception):
    """Base of the kernel's deliberate errors: the value met, the rule it breaks, the fix."""

    def __init__(self, value: object, *, rule: str, fix: str) -> None:
        self.value = value
        self.rule = rule
        self.fix = fix
        super().__init__(f"got {value}; rule: {rule}; fix: {fix}")


class UnsupportedError(KernelError, ValueError):
    """Arguments that the kernel does not serve; it never returns something silently different."""


class BuildError(KernelError, RuntimeError):
    """A kernel that could not be compiled or loaded."""
