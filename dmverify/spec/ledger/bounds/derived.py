"""Which contracts have closed forms and bounded ledger terms.

They are derived for operands that are E4M3 codes, dequantised one by one or on the tensor core,
and for outputs in BF16. A contract with other operands or casts, or with codes whose scale spans a
head, has its enclosure alone.
"""

from __future__ import annotations

from functools import cached_property

from dmverify.errors import ContractError
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.contracts.deltas import DeltaMode

KINDS = ("rows", "windows")


def is_derived(contract: Contract) -> bool:
    """Whether closed forms and ledger bounds are derived for the contract."""
    schedule = contract.schedule
    tiled = isinstance(schedule, Rows) and schedule.cast == "tiles"
    plain = contract.in_e4m3 and contract.store == "bf16" and contract.gradients
    return plain and (tiled or isinstance(schedule, Windows))


def require_derived(contract: Contract) -> Rows | Windows:
    """Return the schedule of a contract that has derived bounds.

    Raises:
        ContractError: Its schedule is another.
    """
    schedule = contract.schedule
    if isinstance(schedule, Online) or not is_derived(contract):
        raise ContractError(
            contract.name,
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
