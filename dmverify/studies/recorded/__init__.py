"""Results of full runs, as the studies wrote them.

``residuals.json`` was made by ``dmverify study residuals --out DIR`` (all defaults). Tests compare
it with the published figures and with a reduced live run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def recorded(study: str) -> dict[str, Any]:
    """The recorded data of a study.

    Raises:
        FileNotFoundError: If there is none of that name.
    """
    path = Path(__file__).parent / f"{study}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
