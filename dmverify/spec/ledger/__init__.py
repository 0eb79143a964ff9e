"""The residual of dS's rows, term by term, exact, each term with its own bound."""

from dmverify.spec.ledger.ledger import Ledger, WorstRow, ledger
from dmverify.spec.ledger.terms import TERMS_OF_MODE

__all__ = ["TERMS_OF_MODE", "Ledger", "WorstRow", "ledger"]
