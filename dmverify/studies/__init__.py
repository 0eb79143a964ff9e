"""The experiments, one module each: they reproduce published figures and extend them.

``STUDIES`` is the table that the command line reads. A study computes, and returns a
``StudyResult`` that knows its JSON, its tables and its pictures; nothing here prints.
"""

from dmverify.studies import (
    ablations,
    adversarial,
    mechanism,
    paper,
    real_model,
    residuals,
    scale,
    separate,
    train,
    worked_row,
)
from dmverify.studies.bounds.study import STUDY as BOUNDS
from dmverify.studies.study import Progress, Study, StudyResult, Table

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        worked_row.STUDY,
        residuals.STUDY,
        BOUNDS,
        train.STUDY,
        separate.STUDY,
        mechanism.STUDY,
        real_model.STUDY,
        scale.STUDY,
        ablations.STUDY,
        adversarial.STUDY,
        paper.STUDY,
    )
}
"""Every study by name."""

__all__ = ["STUDIES", "Progress", "Study", "StudyResult", "Table"]
