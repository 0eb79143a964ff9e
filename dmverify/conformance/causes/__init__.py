"""Likely causes: which seeded faults fail the same checks in the same pattern.

The signatures of the seeded faults and their causes are data beside this package, made of the
laboratory's catalogue of mutants.
"""

from dmverify.conformance.causes.rank import Likely, likely_causes

__all__ = ["Likely", "likely_causes"]
