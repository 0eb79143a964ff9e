"""Mutants of the emulator: one step of the specification changed, everything else its own code.

A module for each part of the kernel has a table ``MUTATIONS``, by the mutant's id. To add one,
write what is changed there, and a row of the catalogue.
"""

from dmverify.lab.mutants.emulator.back_end import EmulatorMutants
from dmverify.lab.mutants.emulator.kernel import Mutated, run_mutated
from dmverify.lab.mutants.emulator.mutation import Mutation

__all__ = ["EmulatorMutants", "Mutated", "Mutation", "run_mutated"]
