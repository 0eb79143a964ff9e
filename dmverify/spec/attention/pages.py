"""The page of steps of each schedule; every page has ``forward`` and ``backward``."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import dmverify.spec.attention.online as online
import dmverify.spec.attention.rows as rows
import dmverify.spec.attention.windows as windows
from dmverify.spec.attention.choices import choices_of
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.state import Backward, Forward
from dmverify.spec.contracts import Contract

PAGES: MappingProxyType[str, Any] = MappingProxyType(
    {"rows": rows, "windows": windows, "online": online}
)


def forward(contract: Contract, head: Head) -> Forward:
    """Steps 1 to 6."""
    schedule = contract.schedule
    found: Forward = PAGES[schedule.kind].forward(choices_of(contract), schedule, head)
    return found


def backward(contract: Contract, head: Head, fwd: Forward) -> Backward:
    """Steps 7 to 11, and of step 11 dQ."""
    schedule = contract.schedule
    found: Backward = PAGES[schedule.kind].backward(choices_of(contract), schedule, head, fwd)
    return found
