"""Settings of the whole suite: what a test draws and finds depends on that test alone."""

import hypothesis
import torch
from hypothesis.internal.conjecture import providers

from tests.skips import pytest_make_collect_report as pytest_make_collect_report
from tests.skips import pytest_runtest_makereport as pytest_runtest_makereport

# Two workers share two cores; torch's spinning threads make each other fifty times slower.
torch.set_num_threads(1)

# Without derandomize and deadline a run would differ from the next one; too_slow looks at the clock
# too, and a machine with other work is slow.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    print_blob=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ci")

# Hypothesis mixes constants of our modules into what it draws, of those that are loaded by then: of
# whatever the tests before have imported. No setting turns that off.
providers._get_local_constants = lambda: providers._local_constants
