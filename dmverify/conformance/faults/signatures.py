"""Signatures of the seeded faults, and how often they tell which fault it is.

    python -m dmverify.conformance.faults.signatures write      # the data of ``causes``
    python -m dmverify.conformance.faults.signatures measure    # unseen seeds and shapes

A fault is judged on its own cases, by bits and by bounds, since a kernel may be judged by either;
what a way of judging does not see has no signature. The data hold ``SEEDS`` of every case, and one
more shape; ``measure`` draws another seed in shapes that the data do not have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from dmverify.conformance.adapter import Dumps
from dmverify.conformance.causes import rank
from dmverify.conformance.causes.features import words_of
from dmverify.conformance.causes.rank import Signatures
from dmverify.conformance.causes.table import CAUSES, cause_of
from dmverify.conformance.families import parse_case_id
from dmverify.conformance.faults.answers import BITS, WITHOUT_BITS, Known, SharedEvidence
from dmverify.conformance.faults.fault import Fault
from dmverify.conformance.faults.planted import kernel_of
from dmverify.conformance.faults.table import FAULTS
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Finding

SEEDS = (0, 1)
OTHER_SEED, UNSEEN_SEED = 2, 1009
OTHER = {17: 19, 60: 52, 64: 60, 100: 92, 120: 108, 200: 188, 320: 300, 1088: 1100}
UNSEEN = {17: 23, 60: 47, 64: 56, 100: 85, 120: 99, 200: 170, 320: 350, 1088: 1130}
BATCHES = {"other": 2, "unseen": 3}
LENGTHS = ("queries", "keys")


@dataclass(frozen=True)
class Sample:
    """A fault on one case.

    Attributes:
        fault: Its id.
        case: Id of the case.
        by_bits: Whether bits judged it.
        words: Of what failed.
        judged: Checks that judged it.
    """

    fault: str
    case: str
    by_bits: bool
    words: frozenset[str]
    judged: frozenset[str]


class Bench:
    """Judges faults; the references of a case are made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Known] = {}

    def samples(self, fault: Fault, cases: Iterable[str]) -> Iterator[Sample]:
        """What fails on these cases, one after the other by the same kernel."""
        kernel = kernel_of(fault)
        for case_id in cases:
            key = case_id, fault.contract
            known = self._known.setdefault(key, Known(*key))
            case = known.case
            forward, outputs = kernel.forward(case), kernel.backward(case)
            internals = kernel.internals(case) if isinstance(kernel, Dumps) else None
            for by_bits in (True, False):
                evidence = SharedEvidence(case, forward, outputs, internals, known, by_bits)
                checks = (*WITHOUT_BITS, BITS) if by_bits else WITHOUT_BITS
                found = [judge(check, evidence) for check in checks]
                if words := words_of(found):
                    yield Sample(fault.id, case_id, by_bits, words, _judged(found))


def _judged(found: Sequence[Finding]) -> frozenset[str]:
    return frozenset(finding.check for finding in found if finding.verdict in rank.JUDGED)


def reshaped(case_id: str, lengths: dict[int, int], batch: int, seed: int) -> str:
    """A case in another shape: other lengths, or more entries where the lengths are the point."""
    parts = parse_case_id(case_id)
    named = {name: lengths[parts.fields[name]] for name in LENGTHS if name in parts.fields}
    fields = parts.fields | (named or {"batch": batch})
    return str(replace(parts, fields=fields, seed=seed))


def shipped_cases(fault: Fault) -> list[list[str]]:
    """The cases of the data: lists that a kernel is asked in order."""
    seeds = [[str(replace(parse_case_id(c), seed=s)) for c in fault.cases] for s in SEEDS]
    return [*seeds, [reshaped(c, OTHER, BATCHES["other"], OTHER_SEED) for c in fault.cases]]


def unseen_cases(fault: Fault) -> list[str]:
    """Cases in shapes and with a seed that the data do not have."""
    return [reshaped(c, UNSEEN, BATCHES["unseen"], UNSEEN_SEED) for c in fault.cases]


def to_json(samples: Sequence[Sample]) -> dict[str, Any]:
    """The data: every word once, and of each signature which it has."""
    words = sorted(set().union(*(sample.words for sample in samples)))
    number = {word: i for i, word in enumerate(words)}
    checks = [check.id for check in (*WITHOUT_BITS, BITS)]
    return {
        "checks": checks,
        "causes": [{"id": c.id, "words": c.words, "faults": list(c.faults)} for c in CAUSES],
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
        missed: Fault, way of judging, and the causes named instead.
    """

    faults: int
    by_fault: int
    by_cause: int
    missed: tuple[str, ...]


def measure(
    known: Signatures, faults: Sequence[Fault], *, by_bits: bool, progress: Callable[[str], None]
) -> Score:
    """Tries every fault on its unseen cases, as one run."""
    bench, tried, by_fault, by_cause, missed = Bench(), 0, 0, 0, []
    for fault in faults:
        progress(fault.id)
        found = [s for s in bench.samples(fault, unseen_cases(fault)) if s.by_bits is by_bits]
        if not found:
            continue
        tried += 1
        near = sum(rank.likeness(known, s.words, set(s.judged)) for s in found) / len(found)
        order = [name for name, _ in rank.ranked_faults(known, near)]
        causes = list(dict.fromkeys(cause_of(name).id for name in order))[: rank.SHOWN]
        by_fault += fault.id in order[: rank.SHOWN]
        by_cause += cause_of(fault.id).id in causes
        if cause_of(fault.id).id not in causes:
            missed.append(f"{fault.id}: {', '.join(causes)}")
    return Score(tried, by_fault, by_cause, tuple(missed))


@click.command()
@click.argument("verb", type=click.Choice(["write", "measure"]))
@click.argument("faults", nargs=-1)
def main(verb: str, faults: tuple[str, ...]) -> None:
    """Write the signatures, or measure how often they are right."""
    chosen = [fault for fault in FAULTS if not faults or fault.id in faults]
    progress = lambda line: click.echo(line, err=True)  # noqa: E731
    if verb == "write":
        bench, samples = Bench(), []
        for fault in chosen:
            progress(fault.id)
            samples += [s for cases in shipped_cases(fault) for s in bench.samples(fault, cases)]
        path = Path(rank.__file__).parent / rank.DATA
        path.write_text(json.dumps(to_json(samples), separators=(",", ":")) + "\n")
        click.echo(f"{len(samples)} signatures of {len({s.fault for s in samples})} faults")
        return
    for by_bits in (True, False):
        score = measure(rank.signatures(), chosen, by_bits=by_bits, progress=progress)
        click.echo(
            f"by {'bits' if by_bits else 'bounds'}: {score.faults} faults; in the first "
            f"{rank.SHOWN}: its own id {score.by_fault}, its cause {score.by_cause}"
        )
        click.echo("\n".join(f"  missed {line}" for line in score.missed))


if __name__ == "__main__":
    main()
