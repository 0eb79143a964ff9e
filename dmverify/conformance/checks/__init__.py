"""The checks, one table: what each looks at, by which bound, and which fault it targets."""

from dmverify.conformance.checks.check import Check
from dmverify.conformance.checks.table import CHECKS, choose_checks, get_check

__all__ = ["CHECKS", "Check", "choose_checks", "get_check"]
