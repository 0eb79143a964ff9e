"""Kernels that are wrong under one narrow condition only: what a list of cases has to reach."""

from dmverify.conformance.faults.narrow.fault import Narrow, Narrowed
from dmverify.conformance.faults.narrow.table import NARROW

__all__ = ["NARROW", "Narrow", "Narrowed"]
