"""The attention steps, written once, and ``interpret``, which gives them a meaning."""

from dmverify.spec.attention.run import Interpretation, interpret

__all__ = ["Interpretation", "interpret"]
