"""Kernels that are wrong under one narrow condition only: what a list of cases has to reach."""

from dmverify.lab.mutants.narrow.mutant import NARROW, Narrow, Narrowed

__all__ = ["NARROW", "Narrow", "Narrowed"]
