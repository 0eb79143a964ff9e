"""Certified enclosures: for every output element, the numbers that a kernel may return."""

from dmverify.spec.enclosure.bands import Band
from dmverify.spec.enclosure.enclose import enclosure

__all__ = ["Band", "enclosure"]
