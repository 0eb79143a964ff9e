"""What a contract chooses beside its schedule, in the form in which the steps use it.

A page of steps (``rows``, ``windows``, ``online``) holds the steps that its schedule has in common;
where contracts differ inside one, the page uses a member of ``Choices``, and reads no contract.

| field of the contract | member | in step |
|---|---|---|
| centre_k | ``centred`` | 6: LSE gets the mean's part back |
| normaliser | ``normaliser`` | 6: what O is divided by |
| store | ``store`` | 6: O as the backward reads it |
| delta | ``delta``, ``mode`` | 7, 8 |
| ds_cast, ds_format | ``ds_cast``, ``ds_format`` | 10 |
| saturate | ``saturate`` | 4, 10 |
| cast, operand_rule | ``blocks``, ``block_rule`` | 4, 10: tiles, or blocks once a direction |
| k_block | ``key_blocks`` | 1: whether keys have several scales |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dmverify.spec.attention.num import Num, cast
from dmverify.spec.attention.stores import Store, store_of
from dmverify.spec.contracts import Contract
from dmverify.spec.contracts.deltas import DeltaMode
from dmverify.spec.formats import E4M3, FORMATS, FloatFormat


@dataclass(frozen=True)
class Choices:
    """The members of the table above.

    Attributes:
        centred: Whether a mean was taken off the keys.
        by_codes: Whether O is divided by the sum of the codes.
        store: The format that O is stored in.
        delta: Word of the softmax correction.
        mode: What it reads.
        ds_cast: How dS is rounded.
        ds_format: To what.
        saturate: Whether casts of P and dS saturate.
        blocks: Whether P and dS are cast in blocks along what a dot sums over.
        block_rule: The scale rule of such blocks.
        key_blocks: Whether blocks of keys have scales of their own.
    """

    centred: bool
    by_codes: bool
    store: Store
    delta: str
    mode: DeltaMode
    ds_cast: str
    ds_format: FloatFormat
    saturate: bool
    blocks: bool
    block_rule: str
    key_blocks: bool

    def normaliser(self, unrounded: Num, codes: Callable[[], Num]) -> Num:
        """What O is divided by: the sum of the unrounded e, or that of the codes."""
        return codes() if self.by_codes else unrounded

    def p_codes(self, units: Num) -> Num:
        """P in units of codes, as E4M3 codes."""
        return cast(units, E4M3, site="p", saturate=self.saturate)


@lru_cache(64)
def choices_of(contract: Contract) -> Choices:
    """The choices of a contract."""
    blocks = contract.blocked
    return Choices(
        centred=contract.centre_k != "none",
        by_codes=contract.normaliser == "codes",
        store=store_of(contract, "o"),
        delta=contract.delta,
        mode=contract.delta_mode,
        ds_cast=contract.ds_cast,
        ds_format=FORMATS[contract.ds_format.upper()],
        saturate=contract.saturate,
        blocks=blocks,
        block_rule=contract.operand_rule if blocks else "",
        key_blocks=contract.k_block is not None,
    )
