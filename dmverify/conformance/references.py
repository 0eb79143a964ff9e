"""What a case is judged by, whatever a kernel answers: pure functions of the case, made once.

| reference | is |
|---|---|
| bits | the outputs bit for bit, if the contract states every order |
| bands | what the contract allows of each output: these bits, or an enclosure |
| attention | attention and its gradients in float64 without any cast |

As nothing else goes into them, another process may have made them before a check asks (``pool``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from dmverify.conformance.accuracy import attention_in_float64
from dmverify.spec.attention.parts import bits_in_parts
from dmverify.spec.case import F64, Case, Outputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.bands import exact_band


class References:
    """The references of one case.

    Args:
        case: The case.
        use_bits: Whether a contract that states every order is judged by its bits; without, its
            bands are what any order of keys and queries may give.
        made: Gives those that were made elsewhere, by name; called when the first is asked for.
    """

    def __init__(
        self,
        case: Case,
        *,
        use_bits: bool = True,
        made: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.case, self.use_bits = case, use_bits
        self._made = made

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
        if self.contract.bit_exact and self.use_bits:
            return {name: exact_band(array) for name, array in self.bits.items()}
        if (made := self._elsewhere.get("bands")) is not None:
            found: dict[str, Band] = made
            return found
        return enclosure(self.contract, self.case.problem, self.case.inputs)

    @cached_property
    def bits(self) -> Outputs:
        """The outputs bit for bit.

        Raises:
            ContractError: If the contract leaves an order open.
        """
        if (made := self._elsewhere.get("bits")) is not None:
            found: Outputs = made
            return found
        return bits_in_parts(self.contract, self.case.problem, self.case.inputs)

    @cached_property
    def attention(self) -> dict[str, F64] | None:
        """Attention in float64 by output, None where the case is too large for it."""
        if (made := self._elsewhere.get("attention")) is not None:
            found: dict[str, F64] = made
            return found
        return attention_in_float64(self.case)

    @cached_property
    def _elsewhere(self) -> Mapping[str, Any]:
        return self._made()


def make(case: Case, names: Iterable[str], *, use_bits: bool) -> dict[str, Any]:
    """Some references by name, without those that raise: who asks for them meets the error."""
    references = References(case, use_bits=use_bits)
    found = {}
    for name in names:
        try:
            found[name] = getattr(references, name)
        except Exception:
            continue
    return found


def names_for(contract: Contract, *, use_bits: bool, accuracy: bool) -> tuple[str, ...]:
    """The references that judging a case under a contract asks for.

    Args:
        contract: The contract.
        use_bits: As for ``References``.
        accuracy: Whether the distance from float64 attention is measured.
    """
    main = "bits" if contract.bit_exact and use_bits else "bands"
    return (main, "attention") if accuracy else (main,)
