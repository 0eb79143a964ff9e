"""The catalogue of mutants: what each does wrong, stated once, whatever makes it.

The rows are data (``catalogue.toml``, which says what its fields mean). A back end has an edit
under a row's id: ``emulator`` of steps of the specification, ``cuda`` of the CUDA kernel's source.
A row says nothing about how it is made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeAlias

from dmverify.errors import UnknownNameError, unknown_name

Key: TypeAlias = tuple[str, str]
"""Case id and contract name."""


@dataclass(frozen=True)
class Mutant:
    """One row.

    Attributes:
        id: The name users see, of every kernel with this mistake.
        part: The part of the kernel that is wrong.
        what: The mistake, in words.
        check: Id of the check that has to reject it; ``run`` if the kernel hangs or fails,
            ``fences`` if its machine code lacks a fence or a barrier.
        cases: Ids of the cases that show it, in the order in which they are asked.
        contract: The contract that the kernel promises.
        outside: The check instead, where a kernel does not show its inside.
        hidden: Why no bound can see it, if only the comparison of bits does.
        cause: Id of its cause.
    """

    id: str
    part: str
    what: str
    check: str
    cases: tuple[str, ...]
    contract: str = "bundled"
    outside: str = ""
    hidden: str = ""
    cause: str = ""

    @property
    def keys(self) -> tuple[Key, ...]:
        """Every case with the contract."""
        return tuple((case, self.contract) for case in self.cases)

    @property
    def check_outside(self) -> str:
        """The check that has to reject it by its outputs."""
        return self.outside or self.check


@dataclass(frozen=True)
class Cause:
    """Mutants whose answers differ in degree and not in kind: one look at one line of a kernel.

    Attributes:
        id: Its name.
        words: What is wrong, for the author of a kernel.
        mutants: Ids of the mutants that are this.
    """

    id: str
    words: str
    mutants: tuple[str, ...]


def _mutant(name: str, part: str, row: Mapping[str, Any]) -> Mutant:
    cases = [row["case"]] if isinstance(row["case"], str) else row["case"]
    hidden = _DATA["hidden"][row["hidden"]] if "hidden" in row else ""
    words = {key: x for key, x in row.items() if key not in ("case", "hidden")}
    return Mutant(name, part, cases=tuple(CASES[case] for case in cases), hidden=hidden, **words)


_DATA: dict[str, Any] = tomllib.loads(files(__package__).joinpath("catalogue.toml").read_text())

CASES: Mapping[str, str] = MappingProxyType(_DATA["cases"])
"""The cases that show mutants, by a short name."""

MUTANTS: Mapping[str, Mutant] = MappingProxyType(
    {
        name: _mutant(name, part, row)
        for part, rows in _DATA["part"].items()
        for name, row in rows.items()
    }
)
"""Every row, by its id."""

CAUSES = tuple(
    Cause(name, words, tuple(mutant.id for mutant in MUTANTS.values() if mutant.cause == name))
    for name, words in _DATA["causes"].items()
)
"""Every cause."""


def chosen(names: Iterable[str], made: Collection[str]) -> list[Mutant]:
    """The mutants of these ids, each once; if there are none, all that a back end makes.

    Args:
        names: Ids.
        made: Ids that the back end makes.

    Raises:
        UnknownNameError: For an id that the back end does not make.
    """
    known = [name for name in MUTANTS if name in made]
    wanted = list(dict.fromkeys(names)) or known
    for name in wanted:
        if name in MUTANTS and name not in made:
            raise UnknownNameError(
                f"fault {name!r}",
                rule="a fault is one that the kernel asked can have; another one has this",
                fix="name that kernel: --kernel emulator, simulation or bundled",
            )
        if name not in made:
            raise unknown_name("fault", name, known, shown_by="dmverify faults")
    return [MUTANTS[name] for name in wanted]
