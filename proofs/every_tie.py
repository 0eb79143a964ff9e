"""Every tie of bounds to theorems (see ``ties``)."""

from __future__ import annotations

from dmverify.proofs import ties_closed, ties_composed, ties_ledger, ties_outputs, ties_rows
from dmverify.proofs.ties import Tie


def all_ties() -> tuple[Tie, ...]:
    """Every tie: of the ledger, of its whole rows, of closed forms, of what composes them."""
    own = (*ties_ledger.TIES, *ties_rows.TIES, *ties_closed.TIES)
    return (*own, *ties_composed.TIES, *ties_outputs.TIES)
