"""Mutants: kernels that are wrong in one place, and which check or public rule notices.

``catalogue`` says what each does, ``matrix`` what rejects it, the back ends ``emulator`` and
``cuda`` how it is made.
"""

from dmverify.lab.mutants.catalogue import CAUSES, MUTANTS, Cause, Mutant, chosen
from dmverify.lab.mutants.matrix import Matrix, Row, kill_matrix

__all__ = ["CAUSES", "MUTANTS", "Cause", "Matrix", "Mutant", "Row", "chosen", "kill_matrix"]
