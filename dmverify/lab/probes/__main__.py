"""Records this GPU's instructions: `python -m dmverify.lab.probes OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

from dmverify.lab.probes.record import record

if __name__ == "__main__":
    record(Path(sys.argv[1]))
