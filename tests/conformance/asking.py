"""Asks a kernel the smallest case there is, for tests of what the judge then says."""

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.runner import run

CASE = "lengths/n2@0"


def judged(kernel, **options):
    cases = [generate(CASE, contract=kernel.contract)]
    return {f.check: f for f in run(kernel, cases, checks=CHECKS.values(), emit=ignore, **options)}
