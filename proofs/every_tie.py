"""Every tie of bounds to theorems (see ``ties``)."""

from __future__ import annotations

from dmverify.proofs import ties_closed, ties_ledger
from dmverify.proofs.ties import Tie


def all_ties() -> tuple[Tie, ...]:
    """Every tie, in the order of the ledger, then of the closed forms."""
    return (*ties_ledger.TIES, *ties_closed.TIES)
