"""Kernels in a process of their own: ``proc:COMMAND`` speaks JSON lines, tensors lie on disk.

``PROTOCOL.md`` beside this file is what an author needs; ``example.py`` is a whole server.
"""

from dmverify.conformance.process.kernel import DEFAULT_TIMEOUT, ProcessKernel

__all__ = ["DEFAULT_TIMEOUT", "ProcessKernel"]
