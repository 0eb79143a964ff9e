"""What a property is tried on does not depend on the tests before it."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location

import hypothesis
import numpy as np
from hypothesis import given
from hypothesis import strategies as st


def drawn() -> list[tuple[float, int]]:
    seen = []

    @given(st.floats(width=32), st.integers(0, 2**30))
    def draw(x: float, n: int) -> None:
        seen.append((x, n))

    draw()
    return seen


def test_a_module_that_is_loaded_meanwhile_changes_no_example(tmp_path, monkeypatch):
    before = drawn()
    path = tmp_path / "loaded_meanwhile.py"
    path.write_text("NUMBERS = [77777, 0.3125, 123456789, 9.5e12, 5.4375, 314159.25, 4321]\n")
    spec = spec_from_file_location("loaded_meanwhile", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loaded_meanwhile", module)
    spec.loader.exec_module(module)
    after = drawn()
    np.testing.assert_equal(after, before)  # a NaN is itself there


def test_no_run_remembers_another_and_none_looks_at_the_clock():
    settings = hypothesis.settings.default
    assert settings.derandomize
    assert settings.database is None
    assert settings.deadline is None
    assert hypothesis.HealthCheck.too_slow in settings.suppress_health_check
