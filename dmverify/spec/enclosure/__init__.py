"""Certified enclosures of what a kernel may output where its order of summation is open."""

from dmverify.spec.enclosure.bands import Band
from dmverify.spec.enclosure.enclose import COVERED, covers, enclosure

__all__ = ["COVERED", "Band", "covers", "enclosure"]
