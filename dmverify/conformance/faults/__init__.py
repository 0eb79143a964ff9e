"""Seeded faults: the emulator wrong in one place, and which check or public rule notices."""

from dmverify.conformance.faults.fault import Fault, Plant
from dmverify.conformance.faults.matrix import Matrix, Row, kill_matrix
from dmverify.conformance.faults.planted import Planted, kernel_of
from dmverify.conformance.faults.table import FAULTS, get_fault

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
