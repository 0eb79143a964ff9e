"""Where the recorded runs lie: what the commands wrote, read by the study and by tests."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

_HERE = Path(str(files("dmverify.studies.recorded")))
SOUNDNESS = _HERE / "soundness.json"
SOUNDNESS_AGAIN = _HERE / "soundness_again.json"  # all families of today
EXTREMES = _HERE / "extremes.json"
SMALL = _HERE / "soundness-small.json"
REFUTER = _HERE / "refuter.json"
