"""Whether machine code that hands shared memory to the copy engine has the fence that this needs.

Writes to shared memory by threads and the reads of a bulk copy go through different proxies; the
PTX memory model (section on proxies) orders them only by a ``fence.proxy.async`` between. Its
absence need not show in any run, so it is looked for in the code.

    a store from shared memory in bulk (UBLKCP.G.S) -> a FENCE.VIEW.ASYNC after the last ordinary
    write to shared memory (STS, STSM) that precedes it, in the order of addresses

Not covered: writes in another kernel's function of the same cubin, and code laid out against the
order of execution.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmverify.conformance.faults.cuda.builds import builds
from dmverify.conformance.faults.cuda.fault import CudaFault
from dmverify.kernel.build import Build, cache_directory, write_atomic
from dmverify.kernel.sass import Instruction, disassemble

WRITES, FENCE, STORE = ("STS", "STSM"), "FENCE.VIEW.ASYNC", "UBLKCP.G.S"


def unfenced(code: Sequence[Instruction]) -> list[int]:
    """Addresses of bulk stores that no fence separates from the writes before them."""
    found, open_ = [], False
    for instruction in code:
        name = instruction.operation
        if name.startswith(WRITES):
            open_ = True
        elif name.startswith(FENCE):
            open_ = False
        elif name.startswith(STORE) and open_:
            found.append(instruction.address)
    return found


def lacks_fence(fault: CudaFault) -> bool:
    """Whether a faulty build has such a store, and its correct one has none."""
    pairs = list(builds(fault))
    return any(_count(bad) for _, bad in pairs) and not any(_count(good) for good, _ in pairs)


def _count(build: Build) -> int:
    """How many, kept beside the cubin: the machine with the GPU may have no disassembler."""
    kept = cache_directory() / f"{build.digest}.unfenced"
    if not kept.exists():
        write_atomic(kept, str(len(unfenced(disassemble(build.cubin)))).encode())
    return int(kept.read_text())
