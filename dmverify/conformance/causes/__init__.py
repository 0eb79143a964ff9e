"""Likely causes: which seeded faults fail the same checks in the same pattern.

The signatures of the seeded faults are data beside this package; ``faults.signatures`` makes them.
"""

from dmverify.conformance.causes.rank import Likely, likely_causes

__all__ = ["Likely", "likely_causes"]
