"""Which contracts have closed forms and bounded ledger terms.

They are derived for operands that are E4M3 codes, dequantised one by one or on the tensor core. A
contract with BF16 operands, or with codes whose scale spans a head, has its enclosure alone.
"""

from __future__ import annotations

from dmverify.errors import ContractError
from dmverify.spec.contracts import Contract, Online, Rows, Windows

KINDS = ("rows", "windows")


def is_derived(contract: Contract) -> bool:
    """Whether closed forms and ledger bounds are derived for the contract."""
    schedule = contract.schedule
    tiled = isinstance(schedule, Rows) and schedule.cast == "tiles"
    return tiled or isinstance(schedule, Windows)


def require_derived(contract: Contract) -> Rows | Windows:
    """Return the schedule of a contract that has derived bounds.

    Raises:
        ContractError: Its schedule is another.
    """
    schedule = contract.schedule
    if isinstance(schedule, Online) or not is_derived(contract):
        raise ContractError(
            f"schedule={schedule.kind}, cast={getattr(schedule, 'cast', 'unstated')}",
            rule=f"closed forms and ledgers are derived for {' and '.join(KINDS)}, cast in tiles",
            fix="use the enclosure, which covers every contract",
        )
    return schedule
