"""The builds of a fault: every variant that its cases run, right and wrong."""

from __future__ import annotations

from collections.abc import Iterator

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import Choices, options_of
from dmverify.conformance.kernels.certify import variants_of
from dmverify.kernel.build import Build, build
from dmverify.kernel.launch import Options
from dmverify.lab.mutants.cuda.fault import CudaFault


def calls(fault: CudaFault) -> Iterator[tuple[int, Options, Options]]:
    """Per case: head dim, the options of the correct call, and those with the fault."""
    for case_id in fault.cases:
        case = generate(case_id, contract=fault.contract)
        options = options_of(case, Choices())
        yield case.problem.head_dim, options, fault.options(options)


def delayed_builds(fault: CudaFault) -> Iterator[Build]:
    """The correct build with the fault's delays, of every variant that its cases run."""
    for head_dim, right, _ in calls(fault) if fault.late else ():
        for variant in variants_of(right, head_dim):
            yield build(variant, edits=fault.late)


def builds(fault: CudaFault) -> Iterator[tuple[Build, Build]]:
    """The correct build and the faulty one, of every variant that the fault's cases run."""
    for head_dim, right, wrong in calls(fault):
        pairs = zip(variants_of(right, head_dim), variants_of(wrong, head_dim), strict=True)
        for good, bad in pairs:
            yield build(good), build(bad, edits=wrong.edits)
