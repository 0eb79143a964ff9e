"""The interpretations of the attention steps: exact, enclosures, Hopper bits, float32, float64."""

from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.exact import Exact
from dmverify.spec.arithmetic.floating import ALL_CASTS, Double, Single
from dmverify.spec.arithmetic.interface import Arithmetic

__all__ = ["ALL_CASTS", "Arithmetic", "Bits", "Double", "Enclosure", "Exact", "Single"]
