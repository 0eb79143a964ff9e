"""What pytest's process keeps from one case to the next."""

import subprocess
import sys

import pytest

from dmverify.memory import give_back_long_arrays

# Arrays of a case, freed together; a process that knows nothing of cases gives their pages back,
# and asks for them again in the next one.
FREED = """
import resource, sys
import numpy as np
from dmverify.ci.judge import judge_of
from dmverify.ci.suite import Suite
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
if sys.argv[1] == "judges":
    judge_of(Suite("simulation"))
np.ones(10 << 20, np.uint8)  # freed at once: glibc then takes shorter ones from its heap
arrays = [np.ones(9 << 20, np.uint8) for _ in range(4)]
most = held()
del arrays
print(most - held())
"""


def test_arrays_of_a_case_stay_for_the_next_one():
    if not give_back_long_arrays():
        pytest.skip("this C library has no such setting")
    given_back = {
        how: int(subprocess.check_output([sys.executable, "-c", FREED, how]))
        for how in ("judges", "plain")
    }
    assert given_back["plain"] > 18 << 20  # two of the four at least
    assert given_back["judges"] < 1 << 20
