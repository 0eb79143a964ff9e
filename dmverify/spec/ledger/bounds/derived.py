"""Which contracts have closed forms and bounded ledger terms.

They are derived for operands that are E4M3 codes, dequantised one by one or on the tensor core. A
contract with BF16 operands, or with codes whose scale spans a head, has its enclosure alone.
"""

from __future__ import annotations

from dmverify.errors import ContractError
from dmverify.spec.contracts import Contract

FORMS = ("dequantised", "codes")


def require_derived(contract: Contract) -> None:
    """Refuse a contract that has no derived bounds.

    Raises:
        ContractError: Its operand form is another.
    """
    if contract.operand_form not in FORMS:
        raise ContractError(
            f"operand_form={contract.operand_form!r}",
            rule=f"closed forms and ledgers are derived for {' and '.join(FORMS)}",
            fix="use the enclosure, which covers every contract",
        )
