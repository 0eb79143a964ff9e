"""Intervals meet overflow and 0 / 0 on purpose; the enclosure silences them itself."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield
