"""All that is known about one case: what the kernel returned and what it is judged by.

References are made when a check first asks for them, if not before by a pool, and shared by the
checks that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Forward, Kernel
from dmverify.conformance.references import References, each_whole
from dmverify.conformance.session import Session, SideEffects
from dmverify.conformance.sizes import is_large
from dmverify.spec.attention.parts import AttentionCall
from dmverify.spec.case import F64, Case, Internals, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.enclose import BandPart, each_band
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
        kept: What checks keep of what they found, so that it is found once.
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
    kept: dict[str, Any] = field(default_factory=dict, init=False)  # of this answer alone

    @property
    def kernel(self) -> Kernel | None:
        """The kernel under test, if it can be asked again."""
        return None if self.session is None else self.session.kernel

    @property
    def side_effects(self) -> SideEffects:
        """What the kernel did around its answers, until a check first asks after its last call."""
        if self.session is None:
            return SideEffects()
        key = f"side effects after {self.session.calls} calls"
        if key not in self.kept:
            self.kept[key] = self.session.side_effects()
        found: SideEffects = self.kept[key]
        return found

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

    def each_band(self, take: Callable[[BandPart], None]) -> None:
        """``bands``, part by part where they are large.

        Args:
            take: Called with each part.

        Raises:
            ContractError: If neither bits nor enclosures cover the contract.
        """
        if is_large(self.case.problem):
            self._references.each_band(take)
        else:
            each_whole(self.bands, take)

    def each_band_of_backward(self, take: Callable[[BandPart], None]) -> None:
        """``bands_of_backward``, part by part where they are large.

        Args:
            take: Called with each part.
        """
        case = self.case
        if is_large(case.problem):
            given = {"o": self.outputs.o, "lse": self.outputs.lse}
            each_band(AttentionCall(self.contract, case.problem, case.inputs, given), take)
        else:
            each_whole(self.bands_of_backward, take)

    def each_attention(self, take: Callable[[str, tuple[Any, ...], F64], None]) -> None:
        """Attention in float64, part by part where it is large; nothing where it is too large.

        Args:
            take: Called with an output's name, an index of the whole array, the numbers there.
        """
        self._references.each_attention(take)

    @cached_property
    def bits(self) -> Outputs:
        """The outputs bit for bit.

        Raises:
            ContractError: If the contract leaves an order open.
        """
        return self._references.bits

    @cached_property
    def _references(self) -> References:
        return self.references or References(self.case, use_bits=self.use_bits)

    @cached_property
    def ledger(self) -> Ledger:
        """The terms of every row's residual, rounded from exact ones; needs internals."""
        assert self.internals is not None
        case = self.case
        with np.errstate(all="ignore"):
            return ledger(
                self.contract,
                case.problem,
                inputs=case.inputs,
                internals=self.internals,
                outputs=self.outputs,
                keep_exact=False,
            )
