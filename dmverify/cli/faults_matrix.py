"""``dmverify faults``, with torch: the kill matrix, measured or recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from dmverify.lab.mutants import Matrix, chosen, kill_matrix
from dmverify.lab.mutants.cuda import recorded as recording
from dmverify.lab.mutants.matrix import BackEnd


def kills_of(names: Sequence[str], maker: BackEnd, alarm_seeds: int) -> Matrix:
    """What rejects the named faults, or all of a back end.

    Args:
        names: Ids of the catalogue.
        maker: Makes the faulty kernels.
        alarm_seeds: Seeds of every case that the correct kernel is judged on.
    """
    mutants = chosen(names, maker.made)
    return kill_matrix(
        mutants, maker, alarm_seeds=alarm_seeds, progress=lambda line: click.echo(line, err=True)
    )


def recorded() -> dict[str, dict[str, Any]]:
    """The matrix of the CUDA kernel that ships, by the device that it was recorded on."""
    if not recording.RECORDED.exists():
        return {}
    shape: dict[str, Any] = json.loads(recording.RECORDED.read_text())
    return {shape["producer"]["device"]: shape}
