"""Which GPU and driver this machine has, as its own tool says."""

from __future__ import annotations

import subprocess


def gpu_and_driver() -> dict[str, str]:
    """Device and driver names for a recording's manifest."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    name, driver = (part.strip() for part in answer.splitlines()[0].split(","))
    return {"device": name, "driver": driver}
