"""Attention operands and gradients of trained models, committed as BF16 bits.

``list_captures()`` names them, ``load_capture(name)`` returns one. Loading needs numpy and
safetensors only; how they were made is ``dmverify.lab.captures``.
"""

from dmverify.conformance.captures.store import Capture, list_captures, load_capture

__all__ = ["Capture", "list_captures", "load_capture"]
