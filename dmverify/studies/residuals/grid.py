"""What the study runs: inputs x spreads x contracts, as data."""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.conformance.captures import list_captures
from dmverify.spec.arithmetic import Arithmetic, Single
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.contracts import DELTAS, Contract, get_contract

SEEDS = (0, 1, 2, 3, 4, 5)
BIT_SEEDS = 2  # bits take ten times as long


@dataclass(frozen=True)
class ModeVariant:
    """One contract in one delta mode and cast.

    Attributes:
        base: Name of the contract.
        delta: Delta mode; the associated one takes the normaliser that it needs.
        ds_cast: Cast of dS.
    """

    base: str
    delta: str
    ds_cast: str = "nearest"

    @property
    def arithmetic(self) -> Arithmetic:
        """Hopper's bits where the contract states every order, else float32."""
        return Bits() if self.contract.bit_exact else Single()

    @property
    def contract(self) -> Contract:
        """The contract itself."""
        words = {"delta": self.delta, "ds_cast": self.ds_cast}
        if self.delta == "associated":
            words["normaliser"] = "codes"
        return get_contract(self.base, **words)


@dataclass(frozen=True)
class Grid:
    """One extent of the study.

    Attributes:
        input_sets: Names of ``toy_heads.INPUT_SETS`` for the main rows.
        spreads: Logit spreads.
        main: Variants of the main rows: the article's contract and cast.
        extra: Other casts and contracts, on the gaussian set.
        bits: Variants in Hopper's bits, on the gaussian set and the first ``BIT_SEEDS`` seeds.
        ledger: Variants whose terms the exact ledger splits, on the first seed.
        trained: Variants that run on the captures.
        captures: Their names.
    """

    input_sets: tuple[str, ...]
    spreads: tuple[float, ...]
    main: tuple[ModeVariant, ...]
    extra: tuple[ModeVariant, ...]
    bits: tuple[ModeVariant, ...]
    ledger: tuple[ModeVariant, ...]
    trained: tuple[ModeVariant, ...]
    captures: tuple[str, ...]


MAIN = tuple(ModeVariant("article", delta) for delta in DELTAS)
EXTRA = tuple(
    ModeVariant(base, delta, cast)
    for base, cast in (("article", "zero-sum"), ("upstream", "nearest"), ("upstream", "zero-sum"))
    for delta in ("stale", "matched", "shifted")
)
BITS = tuple(
    ModeVariant("bundled", delta, cast)
    for cast in ("nearest", "zero-sum")
    for delta in ("stale", "matched", "shifted")
)
LEDGER = (
    *(variant for variant in MAIN if variant.delta != "associated"),
    ModeVariant("bundled", "matched"),
    ModeVariant("bundled", "shifted"),
)
TRAINED = (
    *MAIN,
    ModeVariant("article", "matched", "zero-sum"),
    *BITS,
)


def full_grid() -> Grid:
    """Everything."""
    return Grid(
        input_sets=("gaussian", "outlier"),
        spreads=(1.0, 2.0, 4.0, 8.0, 16.0, 64.0),
        main=MAIN,
        extra=EXTRA,
        bits=BITS,
        ledger=LEDGER,
        trained=TRAINED,
        captures=list_captures(),
    )


def quick_grid() -> Grid:
    """The ends of the article's spreads and the sharpest heads, a few variants, two captures."""
    return Grid(
        input_sets=("gaussian", "outlier"),
        spreads=(1.0, 4.0, 64.0),
        main=MAIN,
        extra=(ModeVariant("article", "matched", "zero-sum"),),
        bits=(ModeVariant("bundled", "matched"),),
        ledger=(ModeVariant("article", "matched"), ModeVariant("article", "shifted")),
        trained=(ModeVariant("article", "stale"), ModeVariant("article", "matched")),
        captures=list_captures()[:1] + list_captures()[-1:],
    )
