"""What the runner reports while it works; reporters subscribe, the runner never prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dmverify.conformance.verdict import Finding


@dataclass(frozen=True)
class RunStarted:
    """A run of ``cases`` cases begins; None if it goes on until it is stopped."""

    kernel: str
    contract: str
    cases: int | None


@dataclass(frozen=True)
class CaseStarted:
    """Case number ``number`` (from 1) begins."""

    case: str
    number: int


@dataclass(frozen=True)
class CheckDone:
    """One check has judged one case."""

    finding: Finding


@dataclass(frozen=True)
class CaseDone:
    """All checks have judged the case."""

    case: str


@dataclass(frozen=True)
class RunDone:
    """The run is over."""


Event: TypeAlias = RunStarted | CaseStarted | CheckDone | CaseDone | RunDone
Listener: TypeAlias = Callable[[Event], None]


def ignore(_: Event) -> None:
    """The listener of those who only want the report."""
