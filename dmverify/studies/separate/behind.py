"""Seeds that fell behind, by whether one of their layers was ever sharp: every run of the study.

Sharp rows would be refuted by a seed that falls behind and never had a sharp layer, or by matched
runs in which seeds with one fall behind as with stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from dmverify.studies.separate.beside import beside, sharp_flags
from dmverify.studies.separate.report import base_of
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record

BEHIND = 0.1  # nats behind exact attention, at the last common probe
# Arithmetic, deltas and interventions of each kind of run.
KINDS: MappingProxyType[str, tuple[str, str, tuple[str, ...]]] = MappingProxyType(
    {
        "stale": ("fp8", "stale", ("",)),
        "stale, bundled kernel": ("kernel", "stale", ("",)),
        "stale, the push taken out": ("fp8", "stale", ("project", "freeze")),
        "stale in dQ alone, or in dK": ("fp8", "matched", ("stale-dq", "stale-dk")),
        "stale, turned in every other row": ("fp8", "stale", ("alternate",)),
        "consistent": ("fp8", "consistent", ("",)),
        "associated": ("fp8", "associated", ("",)),
        "matched, with stale's column sums": ("fp8", "matched", ("inject",)),
        "matched": ("fp8", "matched", ("",)),
        "matched, bundled kernel": ("kernel", "matched", ("",)),
    }
)


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One a kind of run that there is; runs that were cut do not count."""
    found = []
    for kind, (arithmetic, delta, acts) in KINDS.items():
        seeds = [
            seed
            for run in records
            if run["recipe"]["arithmetic"] == arithmetic
            and run["recipe"]["delta"] == delta
            and run["recipe"]["act"] in acts
            and run["done"]
            for seed in _seeds(records, run)
        ]
        if seeds:
            found.append({"kind": kind} | _counted(seeds))
    return found


def _seeds(records: Sequence[Record], run: Record) -> list[tuple[bool, bool]]:
    """Whether each seed was ever sharp, and whether it fell behind."""
    base = base_of(records, run)
    if base is None or not base["done"]:
        return []
    return list(zip(sharp_flags(run), (g > BEHIND for g in beside(run, base).gaps), strict=True))


def _counted(seeds: Sequence[tuple[bool, bool]]) -> dict[str, int]:
    never = [late for was, late in seeds if not was]
    sharp = [late for was, late in seeds if was]
    return {
        "never": len(never),
        "never_behind": sum(never),
        "sharp": len(sharp),
        "sharp_behind": sum(sharp),
    }


NOTE = (
    f"Seeds of all groups. Behind: more than {BEHIND} nats above exact attention on the same model "
    "and seed, at the last common probe. Sharp: at some probe after the first the median row of a "
    "layer had less than 0.1 nats of entropy."
)
COLUMNS = ("delta", "never sharp: seeds", "of them behind", "sharp: seeds", "of them behind")


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    """Who fell behind."""
    cells = tuple(
        (row["kind"], *(f"{row[n]}" for n in ("never", "never_behind", "sharp", "sharp_behind")))
        for row in found
    )
    return Table("Who fell behind", COLUMNS, cells, NOTE)
