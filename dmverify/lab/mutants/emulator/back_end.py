"""Mutants of the emulator, answered and judged here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dmverify.conformance.adapter import Kernel
from dmverify.lab.mutants.answers import WITHOUT_BITS, Known, alarms, answer, known_of
from dmverify.lab.mutants.catalogue import Key, Mutant
from dmverify.lab.mutants.emulator.kernel import Mutated
from dmverify.lab.mutants.emulator.mutation import Mutation
from dmverify.lab.mutants.emulator.table import MUTATIONS
from dmverify.lab.mutants.matrix import Progress, Row, drawn, row_of

Change: TypeAlias = Mutation | Callable[[], Kernel]


class EmulatorMutants:
    """See ``dmverify.lab.mutants.matrix.BackEnd``.

    The correct kernel is judged by bounds alone, since comparing its bits with themselves would
    prove nothing, and on more seeds than the mutants.

    Args:
        changes: By the mutant's id.
    """

    name, by_bits, checks = "emulator", False, len(WITHOUT_BITS)
    provenance: Mapping[str, Any] = {}

    def __init__(self, changes: Mapping[str, Change] = MUTATIONS) -> None:
        self._changes = changes

    @property
    def made(self) -> Collection[str]:
        """Ids of the mutants."""
        return self._changes.keys()

    def keys(self, mutant: Mutant) -> tuple[Key, ...]:
        """The catalogue's: the emulator promises its contract."""
        return mutant.keys

    def kernel(self, name: str) -> Kernel:
        """A fresh kernel."""
        change = self._changes[name]
        return Mutated(name, change) if isinstance(change, Mutation) else change()

    def rows(self, mutants: Sequence[Mutant], progress: Progress) -> Iterator[Row]:
        """Each asked its cases in order, inside and outputs."""
        for mutant in mutants:
            progress(mutant.id)
            kernel = self.kernel(mutant.id)
            answers = [answer(kernel, known_of(*key)) for key in mutant.keys]
            yield row_of(mutant, mutant.check, answers)

    def alarms(
        self, mutants: Sequence[Mutant], seeds: int, progress: Progress
    ) -> dict[Key, tuple[str, ...]]:
        """The cases drawn anew with more seeds."""
        asked = [key for mutant in mutants for key in mutant.keys]
        found = {}
        for key in drawn(asked, seeds):
            progress(f"the correct kernel on {key[0]}")
            found[key] = alarms(known_of(*key) if key in asked else Known(*key))
        return found
