"""Where the recorded runs lie: what the commands wrote, read by the study and by tests."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

_HERE = Path(str(files("dmverify.studies.recorded")))
SOUNDNESS = _HERE / "soundness.json"
EXTREMES = _HERE / "extremes.json"
SMALL = _HERE / "soundness-small.json"
REFUTER = _HERE / "refuter.json"
