"""A contract: the numerics of one attention kernel, as data.

Each field names one decision; the attention steps look the decision up in a table. What goes
together with the pieces in which a row is taken is one field, the ``schedule``. A contract is a
printable, hashable value and travels with every result. Whether the bits are known is a property of
the contract (``bit_exact``): it needs a stated order for every sum.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType

from dmverify.errors import ContractError
from dmverify.spec.contracts.schedule import (
    Online,
    Rows,
    Schedule,
    Windows,
    differences,
    require_sides,
    require_words,
)
from dmverify.spec.scaling.rules import get_rule

CHAIN_TILE = 64  # a chain of 16 keys is what a thread holds of 64
DELTAS = ("stale", "consistent", "matched", "renormalized", "shifted", "associated")
MODIFIERS = ("delta", "ds_cast", "normaliser")  # what a contract's name may change
DS_CASTS = ("nearest", "zero-sum")

# Every field whose values form a closed vocabulary, with the meaning of each value.
VOCABULARY = MappingProxyType(
    {
        "scale_span": {
            "head": "every head has scales of its own",
            "group": "the query heads of a key head share one",
            "call": "one scale for all batches and heads",
        },
        "centre_k": {
            "none": "keys are quantised as they are",
            "mean": "the fp32 mean over a head's keys is subtracted first",
            "blocked-mean": "the same, summed per 128-token block and then over ascending blocks",
        },
        "normaliser": {
            "unrounded": "O is divided by the sum of the unrounded e",
            "codes": "O is divided by the sum of the codes that PV used",
        },
        "store": {
            "bf16": "O, dQ, dK and dV in BF16",
            "call-exponent": "each in E4M3 times a power of two that the caller chooses",
        },
        "delta": dict.fromkeys(DELTAS, "see dmverify.spec.attention.delta"),
        "ds_cast": {
            "nearest": "every element rounds by itself",
            "zero-sum": "errors are carried along chains of 16 keys",
        },
    }
)


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a kernel promises about its arithmetic.

    Attributes:
        base: Name without modifiers.
        summary: One line for people.
        operand_rule: Name of the scale rule of q, k, v and do (``dmverify.spec.scaling``).
        schedule: In which pieces a row is taken (``dmverify.spec.contracts.schedule``).
        q_block: Rows that share one scale in q (and likewise below); None is the whole tensor.
        saturate: Whether casts saturate at 448; if not, codes above 464 are NaN.
        other fields: see ``VOCABULARY``.

    Raises:
        ContractError: For a word outside the vocabulary or fields that exclude each other.
    """

    base: str
    summary: str
    operand_rule: str
    schedule: Schedule = field(default_factory=Rows)
    q_block: int | None = 128
    k_block: int | None = 64
    v_block: int | None = 64
    do_block: int | None = 128
    centre_k: str = "mean"
    normaliser: str = "unrounded"
    saturate: bool = False
    scale_span: str = "head"
    store: str = "bf16"
    delta: str = "matched"
    ds_cast: str = "nearest"

    def __post_init__(self) -> None:
        require_words(self, VOCABULARY)
        get_rule(self.operand_rule)
        blocks = (self.q_block, self.k_block, self.v_block, self.do_block)
        sides = tuple(block for block in blocks if block is not None)
        require_sides(self.name, sides)
        for wrong, rule, fix in self._exclusions(sides):
            if wrong:
                raise ContractError(self.name, rule=rule, fix=fix)

    def _exclusions(self, sides: tuple[int, ...]) -> tuple[tuple[bool, str, str], ...]:
        windows = self.schedule if isinstance(self.schedule, Windows) else None
        online = self.schedule if isinstance(self.schedule, Online) else None
        tile = getattr(self.schedule, "tile", CHAIN_TILE)
        return (
            (
                windows is not None and any(side % windows.window for side in sides),
                "on codes a window has one scale",
                "make every block a multiple of the window",
            ),
            (
                online is not None and online.operands == "whole" and bool(sides),
                "codes whose tiles are not stated have one scale an operand",
                "leave every block None",
            ),
            (
                self.ds_cast == "zero-sum" and tile != CHAIN_TILE,
                f"the zero-sum chains are laid out in tiles of {CHAIN_TILE}",
                f"use tiles of {CHAIN_TILE}",
            ),
            (
                self.delta == "associated" and self.normaliser != "codes",
                "the associated delta is zero-sum only if l sums the rounded codes",
                "use normaliser='codes'",
            ),
        )

    @property
    def name(self) -> str:
        """``base`` or ``base:key=value,...`` with every field that differs from that contract."""
        plain = _REGISTERED.get(self.base)
        if plain is None:
            return self.base
        rest = [f.name for f in fields(self) if f.name not in ("summary", "schedule", *MODIFIERS)]
        words = [
            f"{key}={getattr(self, key)}"
            for key in (*MODIFIERS, *rest)
            if getattr(self, key) != getattr(plain, key)
        ] + differences(self.schedule, plain.schedule)
        return self.base + (":" + ",".join(words) if words else "")

    @property
    def bit_exact(self) -> bool:
        """Whether every order is stated, so that the outputs are known bit for bit."""
        return isinstance(self.schedule, Windows) and self.schedule.row_sum != "unspecified"

    def to_json(self) -> dict[str, object]:
        """All fields, ready for json, with the canonical name."""
        schedule = {"kind": self.schedule.kind, **asdict(self.schedule)}
        return {"name": self.name, **asdict(self), "schedule": schedule}


_REGISTERED: dict[str, Contract] = {}


def register(contract: Contract) -> Contract:
    """Makes a contract the one that its base names."""
    _REGISTERED[contract.base] = contract
    return contract
