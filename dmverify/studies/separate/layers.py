"""Layer by layer: mean of K, one-sidedness of the column sums of dK, entropy of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from dmverify.studies.separate.beside import alive
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record

NOTE = (
    "Each cell has the layers in order, mean over seeds. Mean of K (|mean over tokens| / |K|), "
    "column sums (|sum_j dK_jc| / sum_j |dK_jc|, after the cast) and entropy (of a row's P, nats, "
    "median over rows) at the last step; sign: |sum| / sum of magnitudes, over steps, of the "
    "column sums of dK, mean over the windows between probes. The kernel does not show P: its "
    "entropy is exact attention's on the same Q and K."
)
COLUMNS = ("group", "variant", "step", "mean of K", "sign", "column sums", "entropy")


def table_of(records: Sequence[Record]) -> Table:
    """A row a run, in the order of the runs."""
    return Table("Layer by layer", COLUMNS, tuple(map(_cells, records)), NOTE)


def _cells(record: Record) -> tuple[str, ...]:
    points = [point for point in record["points"] if alive(point)]
    last = points[-1]
    windows = [point["sign"] for point in points[1:]] or [last["sign"]]
    signs = [fmean(x for window in windows for x in window[i]) for i in range(len(last["layers"]))]
    return (
        record["label"],
        record["name"],
        f"{last['step']}",
        _joined(last, "k_mean", "{:.2f}".format),
        " ".join(f"{x:.2f}" for x in signs),
        _joined(last, "column_cast", "{:.1e}".format),
        _joined(last, "entropy", "{:.2f}".format),
    )


def _joined(point: dict[str, Any], name: str, shown: Callable[[float], str]) -> str:
    """The mean over seeds, layer by layer, or a dash where it was not seen."""
    rows = [[x for x in layer.get(name, ()) if x is not None] for layer in point["layers"]]
    return " ".join(shown(fmean(row)) if row else "-" for row in rows)
