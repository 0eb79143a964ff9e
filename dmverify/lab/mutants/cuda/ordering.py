"""Whether machine code orders what threads write to shared memory before it is read elsewhere.

What is missing need not show in any run, so it is looked for in the code, in the order of
addresses:

| reader | instruction | after | needs between them |
|---|---|---|---|
| the copy engine, in bulk | UBLKCP.G.S | any STS, STSM | FENCE.VIEW.ASYNC: another proxy reads |
| all threads | LDS [URa + b] | STS [Rc + URa + b]: each wrote a place of its own | BAR |

Source: the PTX memory model (proxies; causality order between threads). Not covered: writes in
another function of the same cubin, places whose addresses are formed in another way, and code laid
out against the order of execution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dmverify.kernel.build import Build, cache_directory, write_atomic
from dmverify.kernel.sass import Instruction, disassemble
from dmverify.lab.mutants.catalogue import Mutant
from dmverify.lab.mutants.cuda.builds import builds

WRITES, FENCE, STORE = ("STS", "STSM"), "FENCE.VIEW.ASYNC", "UBLKCP.G.S"
BARRIER, WRITE, READ = "BAR.", re.compile(r"STS(\.|$)"), re.compile(r"LDS(\.|$)")
PLACE = re.compile(r"\[(?P<own>R\d+\+)?(?P<shared>UR\d+(?:\+0x[0-9a-f]+)?)\]")


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


def unbarriered(code: Sequence[Instruction]) -> list[int]:
    """Addresses of reads that no barrier separates from other threads' writes to their place."""
    found: list[int] = []
    written: set[str] = set()
    for instruction in code:
        name, place = instruction.operation, PLACE.search(instruction.operands)
        if name.startswith(BARRIER):
            written.clear()
        elif place and place["own"] and WRITE.match(name):
            written.add(place["shared"])
        elif place and not place["own"] and READ.match(name) and place["shared"] in written:
            found.append(instruction.address)
    return found


def lacks_order(mutant: Mutant) -> bool:
    """Whether a mutant's build has such a store or read, and its correct one has none."""
    pairs = list(builds(mutant))
    return any(_count(bad) for _, bad in pairs) and not any(_count(good) for good, _ in pairs)


def _count(build: Build) -> int:
    """How many, kept beside the cubin: the machine with the GPU may have no disassembler."""
    kept = cache_directory() / f"{build.digest}.unordered"
    if not kept.exists():
        code = disassemble(build.cubin)
        write_atomic(kept, str(len(unfenced(code)) + len(unbarriered(code))).encode())
    return int(kept.read_text())
