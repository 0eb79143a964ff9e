"""The page of steps of each schedule; every page has ``forward`` and ``backward``."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import dmverify.spec.attention.online as online
import dmverify.spec.attention.rows as rows
import dmverify.spec.attention.windows as windows
from dmverify.spec.attention.choices import Choices, choices_of
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.state import BackwardPass, ForwardPass
from dmverify.spec.contracts import Contract, Schedule

PAGES: MappingProxyType[str, Any] = MappingProxyType(
    {"rows": rows, "windows": windows, "online": online}
)


def forward(contract: Contract, head: Head) -> ForwardPass:
    """Steps 1 to 6."""
    page, of = _page(contract)
    found: ForwardPass = page.forward(*of, head)
    return found


def backward(contract: Contract, head: Head, fwd: ForwardPass) -> BackwardPass:
    """Steps 7 to 11, and of step 11 dQ."""
    page, of = _page(contract)
    found: BackwardPass = page.backward(*of, head, fwd)
    return found


def _page(contract: Contract) -> tuple[Any, tuple[Choices, Schedule]]:
    """The page of a contract's schedule, and what its steps take of the contract."""
    schedule = contract.schedule
    return PAGES[schedule.kind], (choices_of(contract), schedule)
