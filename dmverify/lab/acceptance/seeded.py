"""Seeded faults of the kernel for stage ``flags``: a certificate that no fault breaks says nothing.

Mutants of the CUDA kernel, at least one of every source file with arithmetic, that the
subjects of the stage can show.
"""

from __future__ import annotations

from types import MappingProxyType

from dmverify.kernel.build import Edits
from dmverify.lab.mutants.cuda import MUTATIONS

RACES = ("proxy-fence-missing",)  # may go unseen: what it breaks is a matter of timing
NAMES = (
    "value-scale-dropped",
    "mask-one-further",
    "mask-top-left",
    "rescale-skipped",
    "delta-sign",
    "fragments-swapped",
    "neighbour-tile-scale",
    "last-window-lost",
    "key-mean-skipped",
    *RACES,
)
SEEDED: MappingProxyType[str, Edits] = MappingProxyType(
    {name: MUTATIONS[name].edits for name in NAMES}
)
"""Edits by name."""
