"""``study paper``: every published figure, reproduced or not, from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dmverify.studies.paper.rows import every_row
from dmverify.studies.recorded import recorded
from dmverify.studies.study import Progress, Study, StudyResult, Table, checked_seeds, whole

SUMMARY = "every published figure: reproduced, contradicted or out of reach, and by which command"
METHOD = (
    "Figures of Tang et al., arXiv 2609.37852, of the article about it, and of a first trial of "
    "this project. Ours are read from the recorded studies; a verdict is computed from them by "
    "the tolerance that its row states. Out of reach: what would need checkpoints, seeds or "
    "machines that are not at hand.",
)


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Reads the records; nothing is computed anew.

    Args:
        seeds: Nothing is drawn here; they change nothing.
        quick: Changes nothing.
        out: A directory for JSON and page, or None.
        progress: Told the count.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
    """
    checked_seeds(seeds, (0,))
    rows = list(every_row(recorded))
    count = Counter(row.verdict for row in rows)
    if progress is not None:
        progress(", ".join(f"{verdict}: {n}" for verdict, n in count.items()))
    table = Table(
        "Every figure",
        ("section, figure", "published", "ours", "verdict", "how, or why not"),
        tuple(
            (f"{row.section}: {row.figure}", row.published, row.ours or "-", row.verdict, row.why)
            for row in rows
        ),
        ", ".join(f"{n} {verdict}" for verdict, n in count.items()) + ".",
    )
    data = {"count": dict(count), "rows": [row.to_json() for row in rows]}
    result = StudyResult("paper", SUMMARY, METHOD, data, (table,), (), command=whole("paper"))
    if out is not None:
        result.write(out)
    return result


STUDY = Study("paper", SUMMARY, run)
