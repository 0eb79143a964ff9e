"""The builds of a mutant: every variant that its cases run, right and wrong."""

from __future__ import annotations

from collections.abc import Iterator

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import Choices, options_of
from dmverify.conformance.kernels.certify import variants_of
from dmverify.kernel.build import Build, build
from dmverify.kernel.launch import Options
from dmverify.lab.mutants.catalogue import Mutant
from dmverify.lab.mutants.cuda.table import MUTATIONS


def calls(mutant: Mutant) -> Iterator[tuple[int, Options, Options]]:
    """Per case: head dim, the options of the correct call, and those with the mutation."""
    for case_id, contract in mutant.keys:
        case = generate(case_id, contract=contract)
        options = options_of(case, Choices())
        yield case.problem.head_dim, options, MUTATIONS[mutant.id].options(options)


def delayed_builds(mutant: Mutant) -> Iterator[Build]:
    """The correct build with the mutation's delays, of every variant that its cases run."""
    late = MUTATIONS[mutant.id].late
    for head_dim, right, _ in calls(mutant) if late else ():
        for variant in variants_of(right, head_dim):
            yield build(variant, edits=late)


def builds(mutant: Mutant) -> Iterator[tuple[Build, Build]]:
    """The correct build and the wrong one, of every variant that the mutant's cases run."""
    for head_dim, right, wrong in calls(mutant):
        pairs = zip(variants_of(right, head_dim), variants_of(wrong, head_dim), strict=True)
        for good, bad in pairs:
            yield build(good), build(bad, edits=wrong.edits)
