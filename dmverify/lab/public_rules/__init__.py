"""The acceptance rules of public suites, re-implemented, to be tried on the same wrong kernels."""

from dmverify.lab.public_rules.references import references
from dmverify.lab.public_rules.rule import PublicRule, References
from dmverify.lab.public_rules.table import PUBLIC_RULES

__all__ = ["PUBLIC_RULES", "PublicRule", "References", "references"]
