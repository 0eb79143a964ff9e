"""The acceptance rules of public suites, re-implemented, to be tried on the same wrong kernels."""

from dmverify.conformance.public_rules.references import references
from dmverify.conformance.public_rules.rule import PublicRule, References
from dmverify.conformance.public_rules.table import PUBLIC_RULES

__all__ = ["PUBLIC_RULES", "PublicRule", "References", "references"]
