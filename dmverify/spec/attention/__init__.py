"""The attention steps, written once, and ``interpret``, which gives them a meaning."""

from dmverify.spec.attention.interpret import Interpretation, interpret

__all__ = ["Interpretation", "interpret"]
