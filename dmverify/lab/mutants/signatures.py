"""Signatures of the seeded faults, and how often they tell which fault it is.

    dmverify lab signatures write      # the data of ``causes``
    dmverify lab signatures measure    # unseen seeds and shapes

A fault is judged on its own cases, by bits and by bounds, since a kernel may be judged by either;
what a way of judging does not see has no signature. The data hold ``SEEDS`` of every case, and one
more shape; ``measure`` draws another seed in shapes that the data do not have. It says of every
fault whether its id and its cause are among the first three, and whether its cause would be by the
other faults of that cause alone, as for a fault that nobody has seeded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dmverify.conformance.adapter import Dumps
from dmverify.conformance.causes import rank
from dmverify.conformance.causes.features import check_of, words_of
from dmverify.conformance.causes.rank import Signatures
from dmverify.conformance.families import parse_case_id
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Finding
from dmverify.lab.mutants.answers import BITS, WITHOUT_BITS, known_of
from dmverify.lab.mutants.catalogue import CAUSES, MUTANTS, Mutant, chosen
from dmverify.lab.mutants.emulator import EmulatorMutants

SEEDS = (0, 1)
OTHER_SEED, UNSEEN_SEED = 2, 1009
OTHER = {17: 19, 60: 52, 64: 60, 100: 92, 120: 108, 200: 188, 320: 300, 1088: 1100}
UNSEEN = {17: 23, 60: 47, 64: 56, 100: 85, 120: 99, 200: 170, 320: 350, 1088: 1130}
BATCHES = {"other": 2, "unseen": 3}
LENGTHS = ("queries", "keys")
EMULATOR = EmulatorMutants()
MADE = tuple(MUTANTS[name] for name in MUTANTS if name in EMULATOR.made)
INTERNAL = frozenset(check.id for check in WITHOUT_BITS if check.needs == "internals")


@dataclass(frozen=True)
class Sample:
    """A fault on one case.

    Attributes:
        fault: Its id.
        case: Id of the case.
        by_bits: Whether bits judged it.
        words: Words of what failed.
        judged: Checks that judged it.
    """

    fault: str
    case: str
    by_bits: bool
    words: frozenset[str]
    judged: frozenset[str]


def samples_of(mutant: Mutant, cases: Iterable[str]) -> Iterator[Sample]:
    """What fails on these cases, one after the other by the same kernel."""
    kernel = EMULATOR.kernel(mutant.id)
    for case_id in cases:
        known = known_of(case_id, mutant.contract)
        case = known.case
        forward, outputs = kernel.forward(case), kernel.backward(case)
        internals = kernel.internals(case) if isinstance(kernel, Dumps) else None
        for by_bits in (True, False):
            evidence = known.evidence(
                outputs, by_bits=by_bits, forward=forward, internals=internals
            )
            checks = (*WITHOUT_BITS, BITS) if by_bits else WITHOUT_BITS
            found = [judge(check, evidence) for check in checks]
            if words := words_of(found):
                yield Sample(mutant.id, case_id, by_bits, words, _judged(found))


def _judged(found: Sequence[Finding]) -> frozenset[str]:
    return frozenset(finding.check for finding in found if finding.verdict in rank.JUDGED)


def reshaped(case_id: str, lengths: dict[int, int], batch: int, seed: int) -> str:
    """A case in another shape: other lengths, or more entries where the lengths are the point."""
    parts = parse_case_id(case_id)
    named = {x: lengths[int(parts.fields[x])] for x in LENGTHS if x in parts.fields}
    fields = {**parts.fields, **(named or {"batch": batch})}
    return str(replace(parts, fields=fields, seed=seed))


def shipped_cases(mutant: Mutant) -> list[list[str]]:
    """The cases of the data: lists that a kernel is asked in order."""
    seeds = [[str(replace(parse_case_id(c), seed=s)) for c in mutant.cases] for s in SEEDS]
    return [*seeds, [reshaped(c, OTHER, BATCHES["other"], OTHER_SEED) for c in mutant.cases]]


def unseen_cases(mutant: Mutant) -> list[str]:
    """Cases in shapes and with a seed that the data do not have."""
    return [reshaped(c, UNSEEN, BATCHES["unseen"], UNSEEN_SEED) for c in mutant.cases]


def to_json(samples: Sequence[Sample]) -> dict[str, Any]:
    """The data: every word once, and of each signature which it has."""
    words = sorted(set().union(*(sample.words for sample in samples)))
    number = {word: i for i, word in enumerate(words)}
    checks = [check.id for check in (*WITHOUT_BITS, BITS)]
    return {
        "checks": checks,
        "causes": [{"id": c.id, "words": c.words, "faults": list(c.mutants)} for c in CAUSES],
        "words": words,
        "signatures": [
            {
                "fault": sample.fault,
                "case": sample.case,
                "by": "bits" if sample.by_bits else "bounds",
                "words": sorted(number[word] for word in sample.words),
            }
            for sample in samples
        ],
    }


@dataclass(frozen=True)
class Score:
    """How often the truth was among the first three.

    Attributes:
        faults: Number of faults that failed on an unseen case.
        by_fault: Of them, how many had their own id there.
        by_cause: How many had their cause there.
        siblings: How many share their cause with another fault.
        by_sibling: Of these, how many had their cause there without signatures of their own.
        missed: Fault, and the causes named instead of its own.
    """

    faults: int
    by_fault: int
    by_cause: int
    siblings: int
    by_sibling: int
    missed: tuple[str, ...]


def unseen(
    mutants: Sequence[Mutant], progress: Callable[[str], None] = lambda _: None
) -> tuple[Sample, ...]:
    """Every mutant on its unseen cases."""
    found: list[Sample] = []
    for mutant in mutants:
        progress(mutant.id)
        found += samples_of(mutant, unseen_cases(mutant))
    return tuple(found)


def score(known: Signatures, samples: Iterable[Sample], *, outputs_only: bool = False) -> Score:
    """Ranks the causes of every fault, whose failed cases count as one run.

    Args:
        known: The data.
        samples: Judged one way.
        outputs_only: Whether to leave out the checks of internals, which few kernels show.
    """
    runs: dict[str, list[Sample]] = {}
    for sample in samples:
        if not outputs_only or any(check_of(word) not in INTERNAL for word in sample.words):
            runs.setdefault(sample.fault, []).append(sample)
    by_fault = by_cause = siblings = by_sibling = 0
    missed = []
    for fault, found in runs.items():
        order = _order(known, found, outputs_only)
        cause = MUTANTS[fault].cause
        by_fault += fault in order[: rank.SHOWN]
        by_cause += cause in _first(order)
        if cause not in _first(order):
            missed.append(f"{fault}: {', '.join(_first(order))}")
        if sum(mutant.cause == cause for mutant in MADE) > 1:
            siblings += 1
            by_sibling += cause in _first([other for other in order if other != fault])
    return Score(len(runs), by_fault, by_cause, siblings, by_sibling, tuple(missed))


def _order(known: Signatures, found: Sequence[Sample], outputs_only: bool) -> list[str]:
    """The faults, nearest first."""
    left_out = INTERNAL if outputs_only else frozenset()
    near = [
        rank.likeness(
            known,
            frozenset(word for word in sample.words if check_of(word) not in left_out),
            set(sample.judged - left_out),
        )
        for sample in found
    ]
    return [name for name, _ in rank.ranked_faults(known, sum(near[1:], near[0]) / len(near))]


def _first(order: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(MUTANTS[fault].cause for fault in order))[: rank.SHOWN]


def write(names: Iterable[str], say: Callable[[str], None]) -> str:
    """Writes the data of ``causes``; what they say of other mutants stays.

    Args:
        names: Mutants whose signatures are made; of all that the emulator makes, if none is named.
        say: Told of each that it is its turn.

    Returns:
        How many there are.
    """
    path = Path(rank.__file__).parent / rank.DATA
    data = renewed(json.loads(path.read_text()), chosen(names, EMULATOR.made), say)
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n")
    faults = {row["fault"] for row in data["signatures"]}
    return f"{len(data['signatures'])} signatures of {len(faults)} faults"


def renewed(
    data: dict[str, Any], mutants: Sequence[Mutant], say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The data with the signatures of these mutants made again, and without those that are gone."""
    known: dict[str, list[Sample]] = {}
    for row in data["signatures"]:
        words = frozenset(data["words"][i] for i in row["words"])
        sample = Sample(row["fault"], row["case"], row["by"] == "bits", words, frozenset())
        known.setdefault(sample.fault, []).append(sample)
    for mutant in mutants:
        say(mutant.id)
        made = [one for cases in shipped_cases(mutant) for one in samples_of(mutant, cases)]
        known[mutant.id] = made
    return to_json([one for name, made in known.items() if name in EMULATOR.made for one in made])


def measure(say: Callable[[str], None]) -> Iterator[str]:
    """How often unseen samples are told, a line for each way of judging and each that is missed."""
    samples = unseen(MADE, say)
    for by_bits, outputs_only in product((True, False), (False, True)):
        judged = [sample for sample in samples if sample.by_bits is by_bits]
        found = score(rank.signatures(), judged, outputs_only=outputs_only)
        way = f"by {'bits' if by_bits else 'bounds'}{', outputs only' if outputs_only else ''}"
        yield (
            f"{way}: {found.faults} faults; in the first {rank.SHOWN} its own id {found.by_fault}, "
            f"its cause {found.by_cause}; its cause by another fault {found.by_sibling} of "
            f"{found.siblings}"
        )
        yield from (f"  missed {line}" for line in found.missed)
