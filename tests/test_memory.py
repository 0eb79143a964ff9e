"""What is free again goes back to the system."""

import subprocess
import sys

import pytest

from dmverify import memory
from dmverify.memory import LONG, give_back_long_arrays

# Holes between long arrays: what glibc keeps for good once it has seen a longer one freed. Short
# ones are long enough that no gap from before takes them.
HOLES = """
import resource, sys
import numpy as np
from dmverify.memory import LONG, give_back_long_arrays
if sys.argv[1] == "bounded":
    give_back_long_arrays()
np.ones(31 << 20, np.uint8)  # freed at once: glibc then takes shorter ones from its heap
pairs = [(np.ones(LONG + 1, np.uint8), np.ones(1 << 18, np.uint8)) for _ in range(12)]
kept = [short for _, short in pairs]
del pairs
print(int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize())
"""


def test_long_arrays_leave_no_holes():
    if not give_back_long_arrays():
        pytest.skip("this C library has no such setting")
    taken = {
        how: int(subprocess.check_output([sys.executable, "-c", HOLES, how]))
        for how in ("bounded", "plain")
    }
    assert taken["plain"] - taken["bounded"] > 6 * LONG


@pytest.mark.parametrize("error", [AttributeError, TypeError, OSError])
def test_a_library_without_the_setting_is_left_alone(error, monkeypatch):
    def refuses(name):
        raise error

    monkeypatch.setattr(memory.ctypes, "CDLL", refuses)
    assert not give_back_long_arrays()
