"""What pytest prints of a kernel: what it is before the tests, its worst margins after them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it brings numpy, which pytest starts without
    from dmverify.spec.recording import Provenance

MARGIN, ERROR, REPEAT, SERVED, UNJUDGED = (
    f"dmverify.{word}" for word in ("margin", "error", "repeat", "served", "unjudged")
)
Property = tuple[str, object]
NONE = (-1.0, "")


@dataclass
class Tally:
    """Sums up the tests of a run as their reports come in, from whichever worker.

    Attributes:
        margins: The largest margin of each check, with its test.
        errors: The largest error of each output, with its test.
        unjudged: Why each check did not judge a case, the last reason that was given.
        asked: How many cases were asked.
        served: How many of them the kernel served.
    """

    margins: dict[str, tuple[float, str]] = field(default_factory=dict)
    errors: dict[str, tuple[float, str]] = field(default_factory=dict)
    unjudged: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    served: int = 0

    def add(self, test: str, properties: Iterable[Property]) -> None:
        """Takes in the properties of one test."""
        for name, value in properties:
            if name == SERVED:
                self.asked += 1
                self.served += int(str(value))
            if name.startswith(f"{UNJUDGED}."):
                self.unjudged[name.removeprefix(f"{UNJUDGED}.")] = str(value)
            for prefix, found in ((MARGIN, self.margins), (ERROR, self.errors)):
                head, _, key = name.rpartition(".")
                if head == prefix and float(str(value)) > found.get(key, NONE)[0]:
                    found[key] = float(str(value)), test

    def lines(self) -> list[str]:
        """A line a check: its worst margin and the error beside it."""
        rows = [f"{self.served} of {self.asked} cases served"]
        for check, (margin, test) in sorted(self.margins.items(), key=lambda row: -row[1][0]):
            error = self.errors.get(check)
            beside = f", largest error from attention {error[0]:.3g}" if error else ""
            rows.append(f"{check:<12} margin {margin:<9.3g} {test}{beside}")
        return [*rows, *self._never_judged()]

    def _never_judged(self) -> list[str]:
        """A line a reason: the checks that judged no case at all."""
        checks: dict[str, list[str]] = {}
        for check, reason in self.unjudged.items():
            if check not in self.margins:
                checks.setdefault(reason, []).append(check)
        return [f"not judged: {', '.join(names)}: {reason}" for reason, names in checks.items()]


def header(info: Provenance) -> str:
    """What the kernel says it is: its name, device, driver and build."""
    words = {"device": info.device, "driver": info.driver, "build": info.build[:12]}
    return ", ".join([f"dmverify: {info.kernel}", *(f"{k} {v}" for k, v in words.items() if v)])
