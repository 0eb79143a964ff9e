"""``study adversarial``: the worst dQ of every delta mode and cast under the same constraints.

Attacks need torch, and the list of studies does not: ``study`` is loaded when it runs.
"""

from __future__ import annotations

from typing import Any

from dmverify.errors import naming_extras
from dmverify.studies.adversarial.named import NAME, SUMMARY
from dmverify.studies.study import Study, StudyResult


def run(**options: Any) -> StudyResult:
    """Runs the study (``study.run``).

    Args:
        **options: Options of ``study.run``.

    Raises:
        DependencyError: Without torch.
    """
    with naming_extras():
        from dmverify.studies.adversarial.study import run as attacked
    return attacked(**options)


STUDY = Study(NAME, SUMMARY, run)
