"""Every error that dmverify raises on purpose, and the exit code each one means.

An error names the value that was met, the rule it breaks and the fix. It imports nothing of ours,
so every layer may raise it. Exit codes: 2 wrong usage, 3 kernel or harness error,
4 no answer in time, 5 nothing ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import ClassVar

SHOWN = 8  # known names that an error lists if none is close


class DmverifyError(Exception):
    """Base of all deliberate errors.

    Attributes:
        code: Stable identifier such as ``DMV-INPUT``, for scripts.
        exit_code: What the command line exits with.
        value: What was met.
        rule: The rule that it breaks.
        fix: What the caller can do.
    """

    code: ClassVar[str] = "DMV-ERROR"
    exit_code: ClassVar[int] = 3

    def __init__(self, value: object, *, rule: str, fix: str) -> None:
        self.value = value
        self.rule = rule
        self.fix = fix
        super().__init__(f"[{self.code}] got {value}; rule: {rule}; fix: {fix}")


class InputError(DmverifyError):
    """A value, dtype, shape or special value that the callee forbids."""

    code = "DMV-INPUT"
    exit_code = 2


class ContractError(DmverifyError):
    """A contract and a problem (or an interpretation) that do not fit each other."""

    code = "DMV-CONTRACT"
    exit_code = 2


class UnknownNameError(DmverifyError):
    """A contract, case, check, kernel, study or lemma that does not exist."""

    code = "DMV-UNKNOWN"
    exit_code = 2


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, rule: str = "", shown_by: str = ""
) -> UnknownNameError:
    """The error for a name that does not exist; it offers the close ones.

    Args:
        kind: What the name is of, such as ``check``.
        name: The name that was met.
        known: The names there are.
        rule: What a name of this kind is; by default one of the known names.
        shown_by: A command that lists all.

    >>> print(unknown_name("level", "smoky", ["smoke", "full"]))
    [DMV-UNKNOWN] got level 'smoky'; rule: one of smoke, full; fix: did you mean smoke?
    """
    names = list(known)
    near = get_close_matches(str(name), names, cutoff=0.4)
    some = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    other = f"name one of {some if rule else 'them'}"
    fix = f"did you mean {' or '.join(near)}?" if near else other
    return UnknownNameError(
        f"{kind} {name!r}",
        rule=rule or f"one of {some}",
        fix=f"{fix}{' ' if near else '; '}'{shown_by}' shows all" if shown_by else fix,
    )


class RecordingError(DmverifyError):
    """A recording that is truncated, tampered with or of another version."""

    code = "DMV-RECORDING"
    exit_code = 3


class HarnessError(DmverifyError):
    """Something of the judge's own that failed, such as its disk: no verdict on a kernel."""

    code = "DMV-HARNESS"
    exit_code = 3


class KernelError(DmverifyError):
    """A kernel under test that could not be built, loaded or run, or broke the protocol."""

    code = "DMV-KERNEL"
    exit_code = 3


class KernelTimeoutError(KernelError):
    """A kernel under test that gave no answer in time."""

    code = "DMV-TIMEOUT"
    exit_code = 4


class AnswerError(InputError):
    """An answer of a kernel that is not what was asked for: wrong tensors, shapes or formats."""

    code = "DMV-ANSWER"


class DependencyError(DmverifyError):
    """An optional dependency that this operation needs and that is not installed."""

    code = "DMV-DEPENDENCY"
    exit_code = 3


# Modules that only an extra brings: the extra, and what it is needed for.
EXTRAS: dict[str, tuple[str, str]] = {
    "torch": ("torch", "the simulation and every kernel that computes in torch need torch"),
    "z3": ("prove", "proofs are checked by z3, cvc5 and bitwuzla"),
    "cvc5": ("prove", "proofs are checked by z3, cvc5 and bitwuzla"),
    "bitwuzla": ("prove", "proofs are checked by z3, cvc5 and bitwuzla"),
    "matplotlib": ("report", "pictures are drawn by matplotlib"),
    "jinja2": ("report", "pages are made by jinja2"),
    "cma": ("attack", "an attack searches its family with CMA, of the package cma"),
    "ray": ("scale", "cases are spread over a cluster by Ray"),
    "cuda": ("gpu", "CUDA kernels are built and launched by cuda-core"),
}


@contextmanager
def naming_extras() -> Iterator[None]:
    """Turns a missing module of ``EXTRAS`` into the error that names the extra.

    Raises:
        DependencyError: Instead of the ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        extra, rule = EXTRAS[module]
        raise DependencyError(
            f"no module named {module}", rule=rule, fix=f"pip install 'dmverify[{extra}]'"
        ) from error


class NothingRanError(DmverifyError):
    """A selection that left no check or case to run."""

    code = "DMV-EMPTY"
    exit_code = 5
