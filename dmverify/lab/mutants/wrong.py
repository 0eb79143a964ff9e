"""The simulation under another name: what is wrong with it is a subclass's business."""

from __future__ import annotations

from dataclasses import replace

from dmverify.conformance.kernels.simulation import Simulation
from dmverify.spec.recording import Provenance


class Wrong(Simulation):
    """The simulation, for a mutant to change a method of.

    Args:
        name: For reports; the class's name if there is none.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name or type(self).__name__.lower()

    @property
    def info(self) -> Provenance:
        """Named after what is wrong."""
        return replace(super().info, kernel=self._name)
