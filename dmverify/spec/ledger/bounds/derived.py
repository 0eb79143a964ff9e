"""Which contracts have closed forms and bounded ledger terms.

They are derived for operands that are E4M3 codes, dequantised one by one or on the tensor core,
and for outputs in BF16. A contract with other operands or casts, or with codes whose scale spans a
head, has its enclosure alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from dmverify.errors import ContractError
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.contracts.contract import Word, words_of
from dmverify.spec.contracts.deltas import DeltaMode
from dmverify.spec.contracts.vocabulary import BY_AMAX
from dmverify.spec.scaling.rules import SCALE_RULES

KINDS = ("rows", "windows")
E4M3_ALONE = ("q_format", "k_format", "v_format", "do_format", "ds_format")
DUE: Mapping[str, tuple[Word, ...]] = MappingProxyType(
    {
        "schedule": KINDS,
        "cast": ("tiles",),
        **dict.fromkeys(E4M3_ALONE, ("e4m3",)),
        "operand_rule": tuple(name for name in SCALE_RULES if name not in ("unit", "given")),
        "v_scales": ("rows",),
        "p_scale": (BY_AMAX,),
        "ds_scale": (BY_AMAX,),
        "store": ("bf16",),
        "gradients": (True,),
    }
)
"""What fields have to be, where a contract has them."""


def obstacles(contract: Contract) -> tuple[str, ...]:
    """The fields for which no closed form or ledger bound is derived, as files say them."""
    words = words_of(contract)
    met = {name: words[name] for name in DUE if name in words}
    return tuple(f"{name} = {word}" for name, word in met.items() if word not in DUE[name])


def is_derived(contract: Contract) -> bool:
    """Whether closed forms and ledger bounds are derived for the contract."""
    return not obstacles(contract)


def require_derived(contract: Contract) -> Rows | Windows:
    """Return the schedule of a contract that has derived bounds.

    Raises:
        ContractError: Its schedule is another, or a format or scale.
    """
    schedule, found = contract.schedule, obstacles(contract)
    if found or isinstance(schedule, Online):
        raise ContractError(
            f"{contract.name} with {', '.join(found)}",
            rule=f"closed forms and ledgers are derived for {' and '.join(KINDS)}, cast in tiles "
            "to E4M3 with scales from the data, outputs in BF16",
            fix="use the enclosure, which covers every contract",
        )
    return schedule


class Derived:
    """What bounds read of a contract, whatever else they are formed from."""

    contract: Contract

    @property
    def delta_mode(self) -> DeltaMode:
        """What the softmax correction reads."""
        return self.contract.delta_mode

    @property
    def ds_cast(self) -> str:
        """How dS is cast."""
        return self.contract.ds_cast

    @property
    def normaliser(self) -> str:
        """What O is divided by."""
        return self.contract.normaliser

    @cached_property
    def schedule(self) -> Rows | Windows:
        """In which pieces a row is taken."""
        return require_derived(self.contract)

    @cached_property
    def windowed(self) -> bool:
        """Whether a row is taken in windows, on codes."""
        return isinstance(self.schedule, Windows)
