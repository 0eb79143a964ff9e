"""What a machine is: the instructions that an attention kernel computes with, as bits.

``dmverify.spec.arithmetic.Bits`` runs the steps of a contract on one. A new GPU generation is a
folder with a model that has these members, and a line of ``MACHINES``; its evidence is what a card
of it returned (``dmverify.lab.probes``). Operands are float32 arrays of numpy or torch, and so are
results; what an instruction does with NaN, zeros and subnormal numbers is part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dmverify.spec.formats import Element
from dmverify.spec.namespace import Array


@dataclass(frozen=True)
class Accumulator:
    """How a tensor core adds FP8 products.

    Attributes:
        products: How many one instruction adds to C at once.
        fraction_bits: Fraction bits of the sum, in units of its largest term's power of two; what
            is below is cut off.
    """

    products: int
    fraction_bits: int


class Machine(Protocol):
    """Instructions by what they compute; each docstring says how often it rounds."""

    @property
    def name(self) -> str:
        """What ``MACHINES`` calls it."""

    @property
    def accumulator(self) -> Accumulator:
        """The tensor core's, for FP8 operands and a float32 C."""

    def add(self, x: Array, y: Array) -> Array:
        """x + y, rounded once."""

    def mul(self, x: Array, y: Array) -> Array:
        """x y, rounded once."""

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """x y + z, rounded once."""

    def div(self, x: Array, y: Array) -> Array:
        """x / y, rounded once."""

    def sqrt(self, x: Array) -> Array:
        """The root, rounded once."""

    def maximum(self, x: Array, y: Array) -> Array:
        """The larger one, exact."""

    def ex2(self, x: Array) -> Array:
        """2^x by the fast instruction, an approximation."""

    def lg2(self, x: Array) -> Array:
        """The base-2 logarithm by the fast instruction, an approximation."""

    def rcp(self, x: Array) -> Array:
        """1 / x by the fast instruction, an approximation."""

    def cast(self, x: Array, fmt: Element, *, saturate: bool) -> Array:
        """Values of a format, rounded once; what is too large saturates or is the format's NaN."""

    def dot(self, a: Array, b: Array) -> Array:
        """(M, K) and (N, K) of E4M3 values to (M, N): a chain of tensor core steps from C = 0.

        K goes in ascending order, ``accumulator.products`` at a time; zeros may be appended.
        """
