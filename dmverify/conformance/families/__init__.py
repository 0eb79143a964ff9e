"""Adversarial inputs: families of cases that regenerate from their ids alone.

>>> from dmverify.conformance.families import generate
>>> case = generate("constant-v/third@7")
>>> case.problem.keys, float(case.inputs.v[0, 0, 0, 0])
(130, 0.333984375)
"""

from dmverify.conformance.families.case_id import CaseId, parse_case_id
from dmverify.conformance.families.family import FLAGS, Family, Variant
from dmverify.conformance.families.generate import (
    generate,
    list_cases,
    list_families,
    problem_of,
)
from dmverify.conformance.families.table import FAMILIES

__all__ = [
    "FAMILIES",
    "FLAGS",
    "CaseId",
    "Family",
    "Variant",
    "generate",
    "list_cases",
    "list_families",
    "parse_case_id",
    "problem_of",
]
