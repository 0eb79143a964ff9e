"""All that is known about one case: what the kernel returned and what it is judged by.

References are made when a check first asks for them, if not before by a pool, and shared by the
checks that follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dmverify.conformance.accuracy import NOTHING, Accuracy, distance
from dmverify.conformance.adapter import Forward, Kernel
from dmverify.conformance.references import References
from dmverify.conformance.session import Session, SideEffects
from dmverify.spec.case import F64, Case, Internals, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.ledger import Ledger, ledger


@dataclass(frozen=True, eq=False)
class Evidence:
    """One case, answered.

    Attributes:
        case: The question.
        forward: What the forward pass returned.
        outputs: What forward and backward returned.
        internals: The numbers inside, if the kernel shows them.
        session: Where the kernel can be asked again; None for what cannot.
        two_calls: Whether ``forward`` and ``outputs`` come from a call each; a recording holds one
            answer, which agrees with itself.
        use_bits: Whether a contract that states every order is judged by its bits; without, its
            bands are what any order of keys and queries may give.
        references: What the case is judged by, if it is being made already.
        lacks_gradients: Why the answer has none, in words; empty if it has, or nobody said why.
    """

    case: Case
    forward: Forward
    outputs: Outputs
    internals: Internals | None = None
    session: Session | None = field(default=None, kw_only=True)
    two_calls: bool = field(default=True, kw_only=True)
    use_bits: bool = field(default=True, kw_only=True)
    references: References | None = field(default=None, kw_only=True)
    lacks_gradients: str = field(default="", kw_only=True)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel under test, if it can be asked again."""
        return None if self.session is None else self.session.kernel

    @property
    def side_effects(self) -> SideEffects:
        """What the kernel did around its answers, until now."""
        return SideEffects() if self.session is None else self.session.side_effects()

    @cached_property
    def contract(self) -> Contract:
        """The contract of the case."""
        return self._references.contract

    @cached_property
    def bands(self) -> dict[str, Band]:
        """What the contract allows, by output (see ``references``).

        Raises:
            ContractError: If neither bits nor enclosures cover the contract.
        """
        return self._references.bands

    @cached_property
    def bands_of_backward(self) -> dict[str, Band]:
        """``bands`` of a backward that is called with the O and LSE that this answer holds.

        They say something only where these are in their own bands.
        """
        case = self.case
        given = {"o": self.outputs.o, "lse": self.outputs.lse}
        return enclosure(self.contract, case.problem, case.inputs, given=given)

    @cached_property
    def bits(self) -> Outputs:
        """The outputs bit for bit.

        Raises:
            ContractError: If the contract leaves an order open.
        """
        return self._references.bits

    @cached_property
    def attention(self) -> dict[str, F64] | None:
        """Attention in float64 by output, None where the case is too large for it."""
        return self._references.attention

    @cached_property
    def _references(self) -> References:
        return self.references or References(self.case, use_bits=self.use_bits)

    @cached_property
    def ledger(self) -> Ledger:
        """The exact terms of every row's residual; needs internals."""
        assert self.internals is not None
        case = self.case
        with np.errstate(all="ignore"):
            return ledger(
                self.contract,
                case.problem,
                inputs=case.inputs,
                internals=self.internals,
                outputs=self.outputs,
            )

    def accuracy(self, name: str) -> Accuracy:
        """How wrong one output is."""
        got, band = getattr(self.outputs, name), self.bands[name]
        middle = np.where(band.must_nan | band.may_nan, np.nan, band.mid)
        truth = NOTHING if self.attention is None else distance(name, got, self.attention[name])
        return Accuracy(truth, distance(name, got, middle))
