"""A mark for tests that compile kernels; it imports the kernel's build alone."""

import pytest

from dmverify.kernel.build import nvrtc_version
from dmverify.kernel.errors import BuildError


def has_nvrtc():
    try:
        return bool(nvrtc_version())
    except BuildError:
        return False


compiles = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC on this machine")
