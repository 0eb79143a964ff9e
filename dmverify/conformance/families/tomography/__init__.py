"""The calls of a tomography run: cases whose ids begin with ``tomography/``."""

from dmverify.conformance.families.tomography.designs import call_id

__all__ = ["call_id"]
