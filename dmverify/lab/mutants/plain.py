"""Which mutants ordinary data would miss: N(0, 1) in the sizes of the case that shows each.

A random test of the same size is what a kernel's authors write first. ``plain.json`` says of every
mutant whether the checks reject it on such data, and on the case of its family, both by bounds
alone; ``dmverify lab plain`` measures it anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from types import MappingProxyType

from dmverify.conformance.families import problem_of
from dmverify.lab.mutants.catalogue import MUTANTS, Mutant
from dmverify.lab.mutants.emulator.back_end import EmulatorMutants
from dmverify.lab.mutants.matrix import BackEnd
from dmverify.lab.mutants.simulated import SimulationMutants

NAME = "plain.json"
FIELDS = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim")
BACK_ENDS: Mapping[str, Callable[[], BackEnd]] = MappingProxyType(
    {"emulator": EmulatorMutants, "simulation": SimulationMutants}
)


@dataclass(frozen=True)
class Missed:
    """How one mutant fares.

    Attributes:
        back_end: What makes it.
        mutant: Its id.
        by_plain: Whether N(0, 1) in the sizes of its cases shows it.
        by_family: Whether its families' cases show it.
        rejected: Whether they do when bits are compared, too, or what it does beside computing.
        hidden: Why no bound can see it, if none does.
    """

    back_end: str
    mutant: str
    by_plain: bool
    by_family: bool
    rejected: bool
    hidden: str


def plain_case(case_id: str) -> str:
    """N(0, 1) in the sizes, mask and softmax scale of a case."""
    problem = problem_of(case_id)
    words = [f"{name}={getattr(problem, name)}" for name in FIELDS]
    words.append(f"causal={int(problem.causal)}")
    if problem.softmax_scale is not None:
        words.append(f"softmax_scale={problem.softmax_scale!r}")
    return f"gaussian/spread-1,{','.join(words)}@0"


def plain(mutant: Mutant) -> Mutant:
    """The mutant, asked plain cases."""
    return replace(mutant, cases=tuple(dict.fromkeys(map(plain_case, mutant.cases))))


def measure(name: str, progress: Callable[[str], None]) -> Iterator[Missed]:
    """Every mutant of a back end, on both kinds of cases."""
    back_end = BACK_ENDS[name]()
    for mutant in (MUTANTS[one] for one in MUTANTS if one in back_end.made):
        (first,), (own,) = (
            tuple(back_end.rows([one], progress)) for one in (plain(mutant), mutant)
        )
        seen = own.killed_without_bits
        hidden = "" if seen else mutant.hidden
        yield Missed(name, mutant.id, first.killed_without_bits, seen, own.killed, hidden)


def make_table(progress: Callable[[str], None]) -> list[dict[str, object]]:
    """All mutants of all back ends, as JSON values."""
    return [asdict(row) for name in BACK_ENDS for row in measure(name, progress)]


def read_table() -> tuple[Missed, ...]:
    """What ships."""
    text = files(__package__).joinpath(NAME).read_text(encoding="utf-8")
    return tuple(Missed(**row) for row in json.loads(text))
