"""Which contracts have closed forms and bounded ledger terms.

They are derived for operands that are E4M3 codes, dequantised one by one or on the tensor core. A
contract with BF16 operands, or with codes whose scale spans a head, has its enclosure alone.
"""

from __future__ import annotations

from dmverify.errors import ContractError
from dmverify.spec.contracts import Contract, Online, Rows, Windows

KINDS = ("rows", "windows")


def require_derived(contract: Contract) -> Rows | Windows:
    """Return the schedule of a contract that has derived bounds.

    Raises:
        ContractError: Its schedule is another.
    """
    schedule = contract.schedule
    if isinstance(schedule, Online):
        raise ContractError(
            f"schedule={schedule.kind}",
            rule=f"closed forms and ledgers are derived for {' and '.join(KINDS)}",
            fix="use the enclosure, which covers every contract",
        )
    return schedule
