"""What a mutation of the CUDA kernel is: edits of its source, or a host that drives it wrongly.

Everything but the edits is the kernel's own text, so a table says exactly what is wrong.

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
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dmverify.kernel.build import Edit, Edits

if TYPE_CHECKING:
    from dmverify.conformance.kernels.bundled_launch import Ran
    from dmverify.kernel.launch import Options
    from dmverify.spec.case import Case

Host: TypeAlias = "Callable[[Case, Options], Ran]"
"""``host(case, options) -> what a caller gets``: a host that makes a mistake."""

ORDER = "fences"  # the check of machine code for a missing fence or barrier
RUNS, ENOUGH = 100, 95
"""A mutant that is a matter of timing is run so many times, and killed if so many runs show it."""


@dataclass(frozen=True)
class CudaMutation:
    """What is changed in the CUDA kernel or in how it is driven.

    Attributes:
        edits: Changes of the source, as ``late`` leaves it.
        mode: The delta mode that is compiled instead of the contract's.
        nearest: Whether the nearest cast is compiled instead of the contract's.
        units: Largest stripe of the backward, if not the usual one.
        host: The host's mistake.
        alone: Whether it may hang or poison its process: it gets one of its own, with a time limit.
        racy: Launches of one run where it is a matter of timing; 0 if it is not.
        late: Edits that only delay. They go into the correct kernel too, which has to answer as
            ever: so it is the mistake that shows, and not the delay.
        before: The case that a racy mutant's calls alternate with; its own with other data if
            empty.
    """

    edits: Edits = ()
    mode: str = ""
    nearest: bool = False
    units: int = 0
    host: Host | None = None
    alone: bool = False
    racy: int = 0
    late: Edits = ()
    before: str = ""

    @property
    def place(self) -> str:
        """The source files that are wrong, ``host``, or ``options`` that choose another kernel."""
        files = dict.fromkeys(Path(edit.file).stem for edit in self.edits)
        return ", ".join(files) or ("host" if self.host else "options")

    def options(self, options: Options) -> Options:
        """The options of a correct call, with what is compiled instead."""
        edits = (*self.late, *self.edits)
        changed = replace(options, edits=edits, mode=self.mode or options.mode)
        return replace(changed, zero_sum=False) if self.nearest else changed

    def delayed(self, options: Options) -> Options:
        """The options of a correct call, with the delays alone."""
        return replace(options, edits=self.late)


def edit(file: str) -> Callable[[str, str], Edit]:
    """Edits of one source file: ``edit("query.cu")(old, new)``."""
    return lambda old, new: Edit(file, old, new)
