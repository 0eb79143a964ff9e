"""Reads the machine code of a cubin, and says what in it breaks the kernels' rules.

Needs ``cuobjdump`` (on PATH, or from the package nvidia-cuda-cuobjdump). The rules:

| rule | why |
|---|---|
| every matrix instruction is QGMMA | HMMA is another datapath with other numerics |
| no FFMA.FTZ | the bits must not depend on flags (div.rn and sqrt.rn use other .FTZ forms inside) |
| no local memory | a spill in a loop costs more than it saves |
| fragments survive the loop | ptxas 13.0 was seen to overwrite A fragments still to be read |
| nobody touches what a multiply under way owns (in_flight.py) | it would read or leave half a sum |

An encoding says too what an instruction waits for. From that ``early_arrivals`` finds places in
shared memory that are given back while a load of them is under way.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .errors import BuildError
from .in_flight import touched

ARITHMETIC = ("FADD", "FMUL", "FFMA", "FMNMX", "MUFU", "F2FP", "QGMMA")
LINE = re.compile(r"\s+/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;")
WORD = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/\s*$")
GUARD = re.compile(r"^@!?U?P\w+\s+")
CONTROL = 41  # first bit of the control field in an instruction's second word
NO_BARRIER = 7
FREE = NO_BARRIER << 5  # a control field that sets no barrier and waits for none
NO_REGISTER = ("ST", "BAR", "SYNCS", "BRA", "ISETP", "FSETP", "QGMMA", "WARP", "R2UR", "UBLK")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its address, operation with suffixes, operands as text, and its guard.

    ``control`` is the field of its encoding with the barriers (scoreboards): bits 5 to 7 the one
    that its result sets, bits 11 to 16 those that it waits for.
    """

    address: int
    operation: str
    operands: str
    guarded: bool
    control: int = FREE

    @property
    def sets(self) -> int:
        """The barrier that falls when its result is there; ``NO_BARRIER`` if none does."""
        return self.control >> 5 & 7

    def awaits(self, barrier: int) -> bool:
        """Whether it starts only once this barrier has fallen."""
        return bool(self.control >> 11 & 1 << barrier)


def disassembler() -> str | None:
    """Path of cuobjdump, or None."""
    packaged = Path(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "cuobjdump")
    return shutil.which("cuobjdump") or (str(packaged) if packaged.exists() else None)


def disassemble(cubin: bytes) -> list[Instruction]:
    """The instructions of a cubin in order.

    Raises:
        BuildError: No disassembler.
        subprocess.CalledProcessError: The disassembler does not take the bytes for a cubin.
    """
    tool = disassembler()
    if tool is None:
        raise BuildError("no cuobjdump", rule="SASS checks disassemble", fix="install it")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        run = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True)
    return parse(run.stdout)


def parse(text: str) -> list[Instruction]:
    """Instructions from cuobjdump's text."""
    found: list[Instruction] = []
    for line in text.splitlines():
        match, word = LINE.match(line), WORD.match(line)
        if match:
            operation, _, operands = GUARD.sub("", match[2]).partition(" ")
            guarded = match[2].startswith("@")
            found.append(Instruction(int(match[1], 16), operation, operands, guarded))
        elif word and found:
            found[-1] = replace(found[-1], control=int(word[1], 16) >> CONTROL)
    return found


def arithmetic(code: list[Instruction]) -> Counter[str]:
    """How often each arithmetic operation occurs, suffixes included."""
    return Counter(i.operation for i in code if i.operation.startswith(ARITHMETIC))


def breaches(code: list[Instruction], *, matrix: bool) -> list[str]:
    """What breaks the rules, in words; empty if nothing does.

    Args:
        code: From ``disassemble``.
        matrix: Whether the kernel multiplies matrices.
    """
    found = [f"{i.address:#x} {i.operation}" for i in code if i.operation.startswith("HMMA")]
    found += [f"{i.address:#x} {i.operation}" for i in code if i.operation.startswith("FFMA.FTZ")]
    found += [
        f"{i.address:#x} {i.operation}" for i in code if i.operation.startswith(("LDL", "STL"))
    ]
    if matrix and not any(i.operation.startswith("QGMMA") for i in code):
        found.append("no QGMMA")
    if matrix:
        found += [f"{a:#x} touches R{r} of a multiply under way" for a, r in touched(code)]
    return found + [f"{a:#x} overwrites fragment R{r}" for a, r in overwritten(code)]


def overwritten(code: list[Instruction]) -> list[tuple[int, int]]:
    """Writes to A fragments, loaded before a loop, that a later turn of the loop would read."""
    found = []
    for start, end in loops(code):
        inside = [i for i in code if start <= i.address <= end]
        written: set[int] = set()
        carried: set[int] = set()  # fragments read before the loop writes them
        for i in inside:
            carried |= {r for r in fragment(i) if r not in written}
            written |= set(targets(i))
        before = (i for i in code if i.address < start and "LDSM" in i.operation)
        outside = {r for i in before for r in targets(i)}
        for i in inside:
            if "LDSM" not in i.operation:
                found += [(i.address, r) for r in targets(i) if r in carried & outside]
    return found


def early_arrivals(code: list[Instruction]) -> list[int]:
    """Addresses of arrivals on a barrier in shared memory that do not wait for a load before them.

    Who waits for the arrival may overwrite what is still to be read. Code is read in its order.
    """
    found: list[int] = []
    under_way: set[int] = set()  # barriers of loads whose value nothing has waited for
    for i in code:
        under_way = {barrier for barrier in under_way if not i.awaits(barrier)}
        if i.operation.startswith("SYNCS.ARRIVE") and under_way:
            found.append(i.address)
        if i.operation.startswith("LDS") and i.sets != NO_BARRIER:
            under_way.add(i.sets)
    return found


def loops(code: list[Instruction]) -> Iterator[tuple[int, int]]:
    """Address ranges that end in a backward branch and hold a matrix instruction.

    An unguarded one ends a block that waits out of line, not a loop.
    """
    for i in code:
        target = re.search(r"0x([0-9a-f]+)\s*$", i.operands)
        back = i.guarded and i.operation.startswith("BRA")
        if back and target and int(target[1], 16) < i.address:
            start = int(target[1], 16)
            if any(start <= j.address <= i.address and "QGMMA" in j.operation for j in code):
                yield start, i.address


def fragment(i: Instruction) -> range:
    """Registers of the A operand, when it comes from registers."""
    match = re.match(r"R\d+, R(\d+), gdesc", i.operands)
    return range(int(match[1]), int(match[1]) + 4) if match and "QGMMA" in i.operation else range(0)


def targets(i: Instruction) -> range:
    """Registers that an instruction writes."""
    match = re.match(r"(?:U?P\w+,\s*)*R(\d+)\b", i.operands)
    if match is None or i.operation.startswith(NO_REGISTER):
        return range(0)
    first = int(match[1])
    wide = 4 if "128" in i.operation or "M88.4" in i.operation else 1
    wide = 2 if ".64" in i.operation or "WIDE" in i.operation else wide
    return range(first, first + wide)
