"""Closed forms: how far a conforming kernel may be, from a contract, a problem and a few norms."""

from dmverify.spec.bounds.closed import OUTPUTS, REFERENCES, closed_form
from dmverify.spec.bounds.norms import Norms, measure
from dmverify.spec.bounds.residual import residual, unit_sum_of_log_lse
from dmverify.spec.bounds.term import ClosedForm, Term

__all__ = [
    "OUTPUTS",
    "REFERENCES",
    "ClosedForm",
    "Norms",
    "Term",
    "closed_form",
    "measure",
    "residual",
    "unit_sum_of_log_lse",
]
