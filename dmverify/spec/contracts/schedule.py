"""Schedules: in which pieces a kernel takes a row of scores, and what that decides with it.

| schedule | a row is taken | dots run on | P is relative to | dS is cast |
|---|---|---|---|---|
| Rows | at once | code x scale, in float32 | a group's amax | by a tile's amax |
| Windows | window by window | codes, on tensor cores | a window's maximum, 2^8 | by powers of two |
| Online | in tiles not stated | BF16, or codes | a running maximum | see ``ds`` |

These decisions go together: a window has one scale because its dots run on codes, and its largest P
code is 256 because its maximum is. So a contract holds one schedule, and each schedule has its own
page of steps in ``dmverify.spec.attention``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from dmverify.spec.contracts.vocabulary import require_values


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Whole rows; every sum is in float32 and in any order.

    Attributes:
        p_group: Keys that share a basis of the forward's P codes.
        tile: Side of the square tiles, or length of the blocks, that P and dS are cast in.
        cast: What shares a scale; see ``VOCABULARY``.
        p_scale: P codes are so many times e, and in the backward P; None scales them by an amax.
        ds_scale: dS codes are so many times dS; None scales them by an amax.

    Raises:
        ContractError: For a side that does not divide the padding, or another word or number.
    """

    kind: ClassVar[str] = "rows"
    operands: ClassVar[str] = "dequantised"  # dots run on code x scale, as fp32 numbers
    p: ClassVar[str] = "group-amax"  # code = e / (amax / 448), a scale per row and group
    ds: ClassVar[str] = "tile-amax"  # code = dS / (amax / 448), a scale per tile; P likewise
    on_codes: ClassVar[bool] = False
    row_sum: ClassVar[str] = "unspecified"

    p_group: int = 64
    tile: int = 64
    cast: str = "tiles"
    p_scale: int | None = None
    ds_scale: int | None = None

    def __post_init__(self) -> None:
        require_values(self)

    def step(self, length: int) -> int:
        """Tokens of one step of a sum over ``length`` of them: all."""
        return length


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Windows of keys in ascending order, relative to a lazy reference R.

    Attributes:
        window: Keys of one step of the online softmax. It is one group of P and the side of a tile.
        row_sum: The order in which a row is summed; see ``VOCABULARY``.

    Raises:
        ContractError: For a width that does not divide the padding, or an unknown order.
    """

    kind: ClassVar[str] = "windows"
    operands: ClassVar[str] = "codes"  # dots run on codes; one scalar per tile carries the scales
    p: ClassVar[str] = "offset"  # code = e itself: the window's maximum is 2^8
    ds: ClassVar[str] = "tile-exponent"  # P takes the tile's power of two, dS an a-priori one too
    on_codes: ClassVar[bool] = True

    window: int = 64
    row_sum: str = "quad"

    def __post_init__(self) -> None:
        require_values(self)

    @property
    def p_group(self) -> int:
        """Keys that share a basis of the forward's P codes."""
        return self.window

    @property
    def tile(self) -> int:
        """Side of the square tiles that P and dS are cast in."""
        return self.window

    def step(self, length: int) -> int:
        """Tokens of one step of a sum over ``length`` of them: a window."""
        return self.window


@dataclass(frozen=True, kw_only=True)
class Online:
    """Tiles of at least 32 keys that are not stated, relative to running maxima.

    Attributes:
        operands: What dots run on; see ``VOCABULARY``.
        p: The format of the forward's P.
        ds: The format of the backward's P and dS.
        p_scale: E4M3 codes of P are so many times it.

    Raises:
        ContractError: For a word or number outside these tables.
    """

    kind: ClassVar[str] = "online"
    row_sum: ClassVar[str] = "unspecified"

    operands: str = "bf16"
    p: str = "bf16"
    ds: str = "bf16"
    p_scale: int | None = 256

    def __post_init__(self) -> None:
        require_values(self)

    @property
    def on_codes(self) -> bool:
        """Whether dots run on codes, so that scales multiply their sums."""
        return self.operands == "whole"

    def step(self, length: int) -> int:
        """Tokens of one step of a sum over ``length`` of them: not stated, so all."""
        return length


Schedule: TypeAlias = Rows | Windows | Online

SCHEDULES: Mapping[str, type[Rows] | type[Windows] | type[Online]] = MappingProxyType(
    {each.kind: each for each in (Rows, Windows, Online)}
)
"""By the word that stands for it in a contract's file and name."""
