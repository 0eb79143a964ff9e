"""All that is known about one case: what the kernel returned and what it is judged by.

References are made when a check first asks for them and shared by the checks that follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.bands import exact_band
from dmverify.spec.ledger import Ledger, ledger


@dataclass(frozen=True, eq=False)
class Evidence:
    """One case, answered.

    Attributes:
        case: The question.
        forward: What the forward pass returned.
        outputs: What forward and backward returned.
        internals: The numbers inside, if the kernel shows them.
    """

    case: Case
    forward: Forward
    outputs: Outputs
    internals: Internals | None = None

    @cached_property
    def contract(self) -> Contract:
        """The contract of the case."""
        return get_contract(self.case.contract)

    @cached_property
    def bands(self) -> dict[str, Band]:
        """What the contract allows, by output: one value where the bits are known.

        Raises:
            ContractError: If neither bits nor enclosures cover the contract.
        """
        if self.contract.bit_exact:
            return {name: exact_band(array) for name, array in self.bits.items()}
        return enclosure(self.contract, self.case.problem, self.case.inputs)

    @cached_property
    def bits(self) -> Outputs:
        """The outputs bit for bit.

        Raises:
            ContractError: If the contract leaves an order open.
        """
        case = self.case
        return interpret(self.contract, case.problem, case.inputs, Bits()).outputs

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
