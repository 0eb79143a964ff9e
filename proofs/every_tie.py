"""Every tie of bounds to theorems (see ``ties``)."""

from __future__ import annotations

from dmverify.proofs import ties_closed, ties_composed, ties_ledger
from dmverify.proofs.ties import Tie


def all_ties() -> tuple[Tie, ...]:
    """Every tie, in the order of the ledger, of the closed forms, of what composes them."""
    return (*ties_ledger.TIES, *ties_closed.TIES, *ties_composed.TIES)
