"""What a seeded fault of the CUDA kernel is: edits of its source, or a host that drives it wrongly.

Everything but the edits is the kernel's own text, so a row says exactly what is wrong. Where the
emulator has the same mistake, the row has the same id and, with few exceptions, the same cases.

| way | what is wrong |
|---|---|
| ``edits`` | the source, before it is compiled |
| ``late`` | nothing: delays bring a missing wait out, and leave a correct kernel's bits alone |
| ``mode`` | the delta mode that is compiled, while the case's contract promises another |
| ``host`` | what the host passes, where it launches, what it returns |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from dmverify.kernel.build import Edit, Edits
from dmverify.lab.mutants.fault import Fault

if TYPE_CHECKING:
    from dmverify.conformance.adapter import Kernel
    from dmverify.conformance.kernels.bundled_launch import Ran
    from dmverify.kernel.launch import Options
    from dmverify.spec.case import Case

Host: TypeAlias = "Callable[[Case, Options], Ran]"
"""``host(case, options) -> what a caller gets``: a host that makes a mistake."""

ORDER = "fences"  # the check of machine code for a missing fence or barrier
RUNS, ENOUGH = 100, 95
"""A fault that is a matter of timing is run so many times, and killed if so many runs show it."""


@dataclass(frozen=True)
class CudaFault:
    """One row.

    Attributes:
        id: The emulator's id where it has the same fault.
        group: The part of the kernel that is wrong.
        kernel: Which kernel, or ``host``.
        what: The mistake, in words.
        check: Id of the check that names it; ``run`` if the kernel hangs or fails, ``fences`` if
            the machine code lacks a fence or a barrier.
        edits: Changes of the source, as ``late`` leaves it.
        cases: Ids of the cases that hunt it.
        contract: The contract that the kernel promises.
        hidden: Why no bound can see it, if only the comparison of bits does.
        mode: The delta mode that is compiled instead of the contract's.
        nearest: Whether the nearest cast is compiled instead of the contract's.
        units: Largest stripe of the backward, if not the usual one.
        host: The host's mistake.
        alone: Whether it may hang or poison its process: it gets one of its own, with a time limit.
        racy: Launches of one run where it is a matter of timing; 0 if it is not.
        late: Edits that only delay. They go into the correct kernel too, which has to answer as
            ever: so it is the mistake that shows, and not the delay.
        before: The case that a racy fault's calls alternate with; its own with other data if
            empty.
    """

    id: str
    group: str
    kernel: str
    what: str
    check: str
    edits: Edits
    cases: tuple[str, ...]
    contract: str = "bundled"
    hidden: str = ""
    mode: str = ""
    nearest: bool = False
    units: int = 0
    host: Host | None = None
    alone: bool = False
    racy: int = 0
    late: Edits = ()
    before: str = ""

    def options(self, options: Options) -> Options:
        """The options of a correct call, with what this fault compiles instead."""
        edits = (*self.late, *self.edits)
        changed = replace(options, edits=edits, mode=self.mode or options.mode)
        return replace(changed, zero_sum=False) if self.nearest else changed

    def delayed(self, options: Options) -> Options:
        """The options of a correct call, with this fault's delays."""
        return replace(options, edits=self.late)

    def row(self) -> Fault:
        """The row of the kill matrix; the kernel runs on a GPU, so nothing is planted."""
        return Fault(
            self.id,
            self.group,
            self.what,
            self.check,
            _not_here,
            self.cases,
            self.contract,
            self.hidden,
        )


def edit(file: str) -> Callable[[str, str], Edit]:
    """Edits of one source file: ``edit("query.cu")(old, new)``."""
    return lambda old, new: Edit(file, old, new)


def _not_here() -> Kernel:
    raise NotImplementedError("a fault of the CUDA kernel is run by its worker")
