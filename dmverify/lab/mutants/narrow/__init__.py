"""Kernels that are wrong under one narrow condition only: what a list of cases has to reach."""

from dmverify.lab.mutants.narrow.fault import Narrow, Narrowed
from dmverify.lab.mutants.narrow.table import NARROW

__all__ = ["NARROW", "Narrow", "Narrowed"]
