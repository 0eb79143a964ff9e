"""Finds instructions that touch registers of a matrix multiply that is still under way.

A QGMMA reads its A fragments and writes its accumulators until a wait covers its group: nobody else
may write the fragments meanwhile, or read or write the accumulators. The next QGMMA on the same
accumulators may: the tensor core takes them in order. ``gsb0`` closes a group (wgmma.commit_group),
``WARPGROUP.DEPBAR.LE gsb0, n`` waits until n groups are left.

Every path is walked: from an instruction with every set of open groups that can arrive there. Not
covered: registers behind an index, calls (they return), widths that no suffix of an operation says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .sass import Instruction

MATRIX = re.compile(r"QGMMA\.64x(\d+)x32")
REGISTER = re.compile(r"\bR(\d+)(\.64)?\b")
TARGET = re.compile(r"0x([0-9a-f]+)\s*$")
ENDS = ("EXIT", "RET", "BRX", "KILL")
PREDICATE = re.compile(r"^(?:!?U?P\w+,\s*)+")
WIDTHS = (("128", 4), (".4", 4), ("WIDE", 2), (".64", 2))  # registers, by what an operation says


class Group(NamedTuple):
    """Registers of the multiplies of one group."""

    accumulators: frozenset[int] = frozenset()
    fragments: frozenset[int] = frozenset()

    def joined(self, other: Group) -> Group:
        """One group of both."""
        return Group(self.accumulators | other.accumulators, self.fragments | other.fragments)


State = tuple[tuple[Group, ...], Group]
"""Groups that are closed and under way, the oldest first, and the one that is still open."""

NOTHING: State = ((), Group())
MOST_GROUPS = 4


def touched(code: list[Instruction]) -> list[tuple[int, int]]:
    """Address and register of every touch of what a multiply under way owns, in order."""
    place = {i.address: n for n, i in enumerate(code)}
    found: set[tuple[int, int]] = set()
    met: set[tuple[int, State]] = set()
    todo = [(0, NOTHING)]
    while todo:
        at = todo.pop()
        if at in met or at[0] >= len(code):
            continue
        met.add(at)
        number, state = at
        one = code[number]
        found |= {(one.address, register) for register in _clashes(one, state)}
        after = _step(one, state)
        todo += [(n, after) for n in _next(one, number, place)]
    return sorted(found)


def _clashes(i: Instruction, state: State) -> frozenset[int]:
    """Registers that an instruction may not touch in a state, and does."""
    closed, opened = state
    groups = (*closed, opened)
    accumulators = frozenset().union(*(g.accumulators for g in groups))
    if not accumulators:
        return accumulators
    fragments = frozenset().union(*(g.fragments for g in groups))
    own = _own(i)
    if own is not None:  # its fragments are nobody's accumulators, nor the other way round
        return (own.fragments & accumulators) | (own.accumulators & fragments)
    writes, reads = _registers(i)
    return ((writes | reads) & accumulators) | (writes & fragments)


def _step(i: Instruction, state: State) -> State:
    """The state after an instruction."""
    closed, opened = state
    own = _own(i)
    if own is not None:
        opened = opened.joined(own)
        return (_bounded((*closed, opened)), Group()) if "gsb0" in i.operands else (closed, opened)
    if i.operation.startswith("WARPGROUP.DEPBAR"):
        left = TARGET.search(i.operands)
        most = int(left[1], 16) if left else 0
        return closed[max(0, len(closed) - most) :], opened
    return state


def _bounded(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The same groups, the oldest as one where a loop without a wait would add more and more."""
    if len(groups) <= MOST_GROUPS:
        return groups
    return groups[0].joined(groups[1]), *groups[2:]


def _own(i: Instruction) -> Group | None:
    """The registers of a multiply."""
    size = MATRIX.match(i.operation)
    if size is None:
        return None
    first, second = (word.strip() for word in i.operands.split(",")[:2])
    start, a = REGISTER.fullmatch(first), REGISTER.fullmatch(second)
    accumulators = range(int(start[1]), int(start[1]) + int(size[1]) // 2) if start else ()
    fragments = range(int(a[1]), int(a[1]) + 4) if a else ()
    return Group(frozenset(accumulators), frozenset(fragments))


def _registers(i: Instruction) -> tuple[frozenset[int], frozenset[int]]:
    """What another instruction writes and reads."""
    wide = next((n for suffix, n in WIDTHS if suffix in i.operation), 1)
    operands = PREDICATE.sub("", i.operands)
    store = i.operation.startswith(("ST", "RED", "ATOM", "UBLK", "SYNCS", "BAR", "R2UR"))
    target = None if store else REGISTER.match(operands)
    writes = frozenset(range(int(target[1]), int(target[1]) + wide)) if target else frozenset()
    rest = operands[target.end() :] if target else operands
    reads: set[int] = set()
    for found in REGISTER.finditer(rest):
        first = int(found[1])
        whole = store and "[" not in rest[: found.start()].rpartition("]")[2]
        reads |= set(range(first, first + (2 if found[2] else wide if whole else 1)))
    return writes, frozenset(reads)


def _next(i: Instruction, number: int, place: dict[int, int]) -> Iterator[int]:
    """Numbers of the instructions that can come next."""
    jump = TARGET.search(i.operands) if i.operation.startswith("BRA") else None
    if jump and int(jump[1], 16) in place:
        yield place[int(jump[1], 16)]
    ends = i.operation.startswith(ENDS) or (
        i.operation.startswith("BRA") and "UP" not in i.operands
    )
    if i.guarded or not ends:
        yield number + 1
