"""Seeded faults: the emulator wrong in one place, and which check or public rule notices."""

from dmverify.lab.mutants.fault import Fault, Plant
from dmverify.lab.mutants.matrix import Matrix, Row, kill_matrix
from dmverify.lab.mutants.planted import Planted, kernel_of
from dmverify.lab.mutants.table import FAULTS, get_fault

__all__ = [
    "FAULTS",
    "Fault",
    "Matrix",
    "Plant",
    "Planted",
    "Row",
    "get_fault",
    "kernel_of",
    "kill_matrix",
]
