"""What a case is judged by, whatever a kernel answers: pure functions of the case, made once.

| reference | is |
|---|---|
| bits | the outputs bit for bit, if the contract states every order |
| bands | what the contract allows of each output: these bits, or an enclosure |
| attention | attention and its gradients in float64 without any cast |

As nothing else goes into them, another process may have made them before a check asks (``pool``).
Bands take ten times the room of the outputs, so those of a large case come part by part, are never
there as a whole, and are made where they are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from dmverify.conformance.accuracy import attention_in_float64, each_attention
from dmverify.conformance.sizes import is_large
from dmverify.spec.attention.parts import AttentionCall, bits_in_parts
from dmverify.spec.case import F64, Case, Outputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.bands import exact_band
from dmverify.spec.enclosure.enclose import BandPart, each_band

WHOLE = (Ellipsis,)  # the place of a part that is all of its output
AT_ONCE = 2**20  # numbers of an output whose exact bands are there at a time


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

    def each_band(self, take: Callable[[BandPart], None]) -> None:
        """``bands``, part by part where they are large.

        Args:
            take: Called with each part.

        Raises:
            ContractError: If neither bits nor enclosures cover the contract.
        """
        case = self.case
        if not is_large(case.problem):
            each_whole(self.bands, take)
        elif self.contract.bit_exact and self.use_bits:
            for name, array in self.bits.items():
                for place in _places(array.shape):
                    take(BandPart(name, place, exact_band(array[place])))
        else:
            each_band(AttentionCall(self.contract, case.problem, case.inputs), take)

    def each_attention(self, take: Callable[[str, tuple[Any, ...], F64], None]) -> None:
        """``attention``, part by part where it is large; nothing where that is None.

        Args:
            take: Called with an output's name, an index of the whole array, the numbers there.
        """
        if is_large(self.case.problem):
            each_attention(self.case, take)
        else:
            for name, array in (self.attention or {}).items():
                take(name, WHOLE, array)

    @cached_property
    def _elsewhere(self) -> Mapping[str, Any]:
        return self._made()


def each_whole(bands: Mapping[str, Band], take: Callable[[BandPart], None]) -> None:
    """Bands that are there, each as one part.

    Args:
        bands: By output.
        take: Called with each.
    """
    for name, band in bands.items():
        take(BandPart(name, WHOLE, band))


def _places(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices of an array that hold ``AT_ONCE`` numbers or one row of the second axis."""
    entry, row = (math.prod(shape[axis:]) for axis in (1, 2))
    entries, rows = (max(AT_ONCE // max(size, 1), 1) for size in (entry, row))
    for i in range(0, shape[0], entries):
        for j in range(0, shape[1], rows if entries == 1 else max(shape[1], 1)):
            yield slice(i, i + entries), slice(j, j + rows if entries == 1 else None)


def make(case: Case, names: Iterable[str], *, use_bits: bool) -> dict[str, Any]:
    """Makes references by name, leaving out those that raise: who asks for one meets its error."""
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
