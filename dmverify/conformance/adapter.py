"""What a kernel under test looks like (how its name becomes an object: ``resolve``).

A kernel is any object with the members of ``Kernel``; it need not import this project. It says
which cases it serves and never returns something silently different for the others. A kernel that
can show its inside also has ``internals(case)`` (see ``Dumps``); one that serves several contracts
names them all in ``contracts`` (see ``ServesSeveral``). One that has no backward pass, at all or
for a case, lacks ``backward``, raises NotImplementedError there or returns ``Unsupported``: then
its forward pass is judged. Answers are arrays of float32, float16, bfloat16 or FP8, or tensors of
torch in these formats on any device (``spec.widened``). Where a contract gives operands as codes,
the tensors of ``case.inputs`` are these, and ``case.inputs.scales`` what they are multiplied with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Protocol, TypeAlias, cast, runtime_checkable

from dmverify.conformance.words import describe_error, printable
from dmverify.errors import InputError, KernelError
from dmverify.spec.case import ABSENT, F32, Case, Internals, Outputs
from dmverify.spec.recording import Provenance


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
        lse: Natural logarithm of the row's sum of exponentials, (B, H, Nq), unless it returns none.
    """

    o: F32
    lse: F32 = ABSENT

    def items(self) -> Iterator[tuple[str, F32]]:
        """Name and tensor of every output that is present."""
        return Outputs(self.o, self.lse).items()


@runtime_checkable
class Kernel(Protocol):
    """A kernel under test."""

    @property
    def info(self) -> Provenance:
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


@runtime_checkable
class ServesSeveral(Protocol):
    """A kernel that serves several contracts: a level asks each case under one of them."""

    @property
    def contracts(self) -> tuple[str, ...]:
        """Their names, ``contract`` among them."""


@runtime_checkable
class ShowsCode(Protocol):
    """A kernel that shows its machine code."""

    def cubins(self) -> Mapping[str, bytes] | None:
        """Cubins of everything that it runs, by name; None where it cannot show them."""


@runtime_checkable
class ShowsBuilds(Protocol):
    """A kernel that can be built otherwise."""

    def builds(self) -> Mapping[str, Kernel]:
        """Other builds by name; all must give the same bits."""


class Stored:
    """Base of what holds the answers of a kernel that is not here, and gives them by case id.

    That it does so is its class, not a word that any kernel could say of itself.
    """


def require_unnamed(kernel: Kernel, name: str) -> Kernel:
    """The kernel, unless it is a ``Stored`` one.

    Raises:
        InputError: A kernel under test does not learn which case it is asked.
    """
    if isinstance(kernel, Stored):
        raise InputError(
            f"kernel {name!r} that answers by id",
            rule="a kernel under test does not learn which case it is asked",
            fix=f"derive it from another class than {Stored.__name__}; outputs on disk are judged "
            "by 'dmverify check'",
        )
    return kernel


MEMBERS = ("info", "contract", "supports", "forward")


def require_kernel(kernel: object, name: str) -> Kernel:
    """The object, after checking that it has every member of ``Kernel``.

    Raises:
        KernelError: For a class, and if a member is missing or of another type; the message names
            it.
    """
    if isinstance(kernel, type):
        raise KernelError(
            f"the class {kernel.__name__}",
            rule="a kernel is an object, and a class is none yet",
            fix=f"pass {kernel.__name__}(), or 'pkg.module:{kernel.__name__}'",
        )
    try:
        missing = [member for member in MEMBERS if not hasattr(kernel, member)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a property that raises
        raise _unknown(name, error) from error
    if missing:
        raise KernelError(
            f"{name!r} without {', '.join(missing)}",
            rule=f"a kernel has {', '.join(MEMBERS)}",
            fix="add the missing members; dmverify.conformance.adapter.Kernel describes them",
        )
    found = cast(Kernel, kernel)
    describe(found)
    if not isinstance(found.contract, str):
        raise _wrong("contract", found.contract, "is a str")
    return found


def contracts_of(kernel: Kernel) -> tuple[str, ...]:
    """The names of the contracts that a kernel serves: its ``contracts``, or ``contract`` alone.

    Raises:
        KernelError: If ``contracts`` raises, is no tuple of texts, or lacks ``contract``.
    """
    try:
        names = kernel.contracts if isinstance(kernel, ServesSeveral) else (kernel.contract,)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a property that raises
        raise _unknown(type(kernel).__name__, error) from error
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise _wrong("contracts", names, "is a tuple of texts")
    if kernel.contract not in names:
        raise _wrong("contracts", names, f"has {kernel.contract!r}, its own contract, among them")
    return names


def describe(kernel: Kernel) -> Provenance:
    """What a kernel says it is, in texts that can be shown.

    Raises:
        KernelError: If it raises, or is no ``Provenance`` of texts.
    """
    try:
        found = kernel.info
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _unknown(type(kernel).__name__, error) from error
    if not isinstance(found, Provenance):
        raise _wrong("info", found, "is a Provenance")
    texts = {
        one.name: getattr(found, one.name) for one in fields(Provenance) if one.name != "flags"
    }
    flags = found.flags
    if not isinstance(flags, tuple) or not all(
        isinstance(x, str) for x in (*texts.values(), *flags)
    ):
        raise _wrong("info", found, "is made of texts, and its flags are a tuple of texts")
    shown = {name: printable(text) for name, text in texts.items()}
    return Provenance(**shown, flags=tuple(map(printable, flags)))


def _unknown(name: str, error: BaseException) -> KernelError:
    return KernelError(
        f"{name!r}, of which a member raises {describe_error(error)}",
        rule="info and contract are known before a case is asked and stay",
        fix="give both without a case, and without a GPU where there is none",
    )


def _wrong(member: str, found: object, rule: str) -> KernelError:
    return KernelError(
        f"a kernel with {member} {found!r:.60}",
        rule=f"{member} {rule}",
        fix="correct it; dmverify.conformance.adapter.Kernel describes the members",
    )
