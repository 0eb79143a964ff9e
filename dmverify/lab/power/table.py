"""The table of planted errors: every check has one or more.

To add one, write what is planted and add a row to the module of its kind.
"""

from __future__ import annotations

from dmverify.lab.power import kernels, outputs, residuals
from dmverify.lab.power.deviation import Deviation

DEVIATIONS: dict[str, Deviation] = {
    one.id: one for one in (*outputs.ROWS, *residuals.ROWS, *kernels.ROWS)
}
"""By id."""
