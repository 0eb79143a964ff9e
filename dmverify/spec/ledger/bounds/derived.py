"""Which contracts have closed forms and bounded ledger terms.

They are derived for whole rows, whose operands are dequantised one by one, in every format, scale
and store that a contract can state, and for windows of E4M3 codes on the tensor core. Formats are
data (``rounding``). What has no form says why, field by field:

| field | without a form because |
|---|---|
| schedule = online | tiles and running maxima are not stated, so P has no one basis |
| cast = blocks | dS has two codes, one a direction: the row sum that dQ sees is not dK's |
| gradients = false | there is no dS; O and LSE have closed forms |
| operand_rule = unit | against the original inputs alone: its cast may saturate by any amount |
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from dmverify.errors import ContractError
from dmverify.spec.attention.choices import choices_of
from dmverify.spec.attention.operand_casts import operand_casts
from dmverify.spec.attention.stores import Store, store_of
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.contracts.contract import words_of
from dmverify.spec.contracts.deltas import DeltaMode
from dmverify.spec.ledger.bounds.rounding import Rounding, rounding_of

FORWARD = ("o", "lse")  # what a contract without a backward pass has
WITHOUT: Mapping[tuple[str, object], str] = MappingProxyType(
    {
        ("schedule", "online"): "tiles and running maxima are not stated, so P has no one basis",
        ("cast", "blocks"): "dS has two codes, one a direction",
        ("gradients", False): "there is no dS",
    }
)
"""Fields that have no closed form or ledger bound, and why."""


def obstacles(contract: Contract, *, output: str = "") -> tuple[str, ...]:
    """The fields for which no bound is derived, as files say them, each with the reason.

    Args:
        contract: The numerics.
        output: Whose closed form is asked for; empty is the row sum of dS.
    """
    words = words_of(contract)
    return tuple(
        f"{name} = {str(word).lower()} ({why})"
        for (name, word), why in WITHOUT.items()
        if words.get(name) == word and not (name == "gradients" and output in FORWARD)
    )


def is_derived(contract: Contract) -> bool:
    """Whether closed forms of every output and ledger bounds are derived for the contract."""
    return not obstacles(contract)


def require_derived(contract: Contract, *, output: str = "") -> Rows | Windows:
    """Return the schedule of a contract that has derived bounds.

    Args:
        contract: The numerics.
        output: As for ``obstacles``.

    Raises:
        ContractError: Its schedule is another, it casts in blocks, or it has no backward pass.
    """
    schedule, found = contract.schedule, obstacles(contract, output=output)
    if found or isinstance(schedule, Online):
        raise ContractError(
            f"{contract.name} with {', '.join(found)}",
            rule="closed forms and ledgers are derived for rows and windows, cast in tiles; of a "
            f"forward alone for {' and '.join(FORWARD)}",
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
        return require_derived(self.contract, output=FORWARD[0])

    @cached_property
    def roundings(self) -> Mapping[str, Rounding]:
        """Of the operands' casts, and of dS."""
        casts = operand_casts(self.contract)
        found = {name: rounding_of(operand.element) for name, operand in casts.items()}
        return {**found, "ds": rounding_of(choices_of(self.contract).ds_format)}

    @cached_property
    def store(self) -> Store:
        """How O and the gradients are stored."""
        return store_of(self.contract, FORWARD[0])

    @property
    def saturating(self) -> bool:
        """Whether casts of P and dS saturate."""
        return choices_of(self.contract).saturate

    @property
    def p_factor(self) -> int | None:
        """P codes are so many times P; None scales them by an amax, or a power of two."""
        return self.schedule.p_scale if isinstance(self.schedule, Rows) else None

    @property
    def ds_factor(self) -> int | None:
        """dS codes are so many times dS; None scales them by an amax, or a power of two."""
        return self.schedule.ds_scale if isinstance(self.schedule, Rows) else None

    @cached_property
    def windowed(self) -> bool:
        """Whether a row is taken in windows, on codes."""
        return isinstance(self.schedule, Windows)
