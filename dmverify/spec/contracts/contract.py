"""A contract: the numerics of one attention kernel, as data.

Each field names one decision; the attention steps look the decision up in a table. A contract is a
printable, hashable value and travels with every result. Whether the bits are known is a property of
the contract (``bit_exact``): it needs a stated order for every sum.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from types import MappingProxyType

from dmverify.errors import ContractError
from dmverify.spec.scaling.rules import get_rule

PAD = 128  # rows are padded to whole multiples of it
CHAIN_TILE = 64  # a chain of 16 keys is what a thread holds of 64
DELTAS = ("stale", "consistent", "matched", "renormalized", "shifted", "associated")
MODIFIERS = ("delta", "ds_cast", "normaliser")  # what a contract's name may change
DS_CASTS = ("nearest", "zero-sum")

# Every field whose values form a closed vocabulary, with the meaning of each value.
VOCABULARY = MappingProxyType(
    {
        "operand_form": {
            "dequantised": "dots run on code x scale, as fp32 numbers",
            "codes": "dots run on codes; one scalar per tile carries the scales",
            "bf16": "dots run on the BF16 inputs as they came, on tensor cores, in any order",
            "whole": "dots run on codes, on tensor cores, in any order; one scale an operand",
        },
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
        "softmax": {
            "row-max": "e = exp(s - max of the row)",
            "window-max": "e = ex2(fma(a, ct, -b)), b = fma(window max, ct, -8), lazy reference R",
            "online": "row-max, but relative to running maxima of tiles that are not stated",
        },
        "p_encoding": {
            "group-amax": "code = e / (amax / 448), a scale per row and group",
            "offset": "code = e itself: the window maximum is 2^8",
            "running-bf16": "e in BF16, relative to a running maximum",
            "running-e4m3": "code = 2^8 e, relative to a running maximum",
            "unrounded": "e as it is",
        },
        "normaliser": {
            "unrounded": "O is divided by the sum of the unrounded e",
            "codes": "O is divided by the sum of the codes that PV used",
        },
        "ds_scale": {
            "tile-amax": "code = dS / (amax / 448), a scale per tile; P likewise",
            "tile-exponent": "P takes the tile's power of two, dS that times an a-priori one",
            "bf16": "P and dS in BF16; so may be each query head's part of dK and dV",
            "call-exponent": "P codes are 2^8 P; dS codes dS x softmax scale x 2^k of the call",
            "unrounded": "neither is cast",
        },
        "row_sum": {
            "unspecified": "any order",
            "quad": "four lanes of two chains by key parity, lanes combined at the end",
        },
        "quotient": {
            "divide": "O = o / l and P = e / l",
            "reciprocal": "O = o * rcp(l) and P = e * rcp(l), both rounded to nearest",
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
        q_block: Rows that share one scale in q (and likewise below); None is the whole tensor.
        window: Keys of one online softmax step; None takes the row at once.
        p_group: Keys that share a basis of the forward's P codes.
        tile: Side of the square tiles that P and dS are cast in, in the backward.
        saturate: Whether casts saturate at 448; if not, codes above 464 are NaN.
        other fields: see ``VOCABULARY``.

    Raises:
        ContractError: For a word outside the vocabulary or fields that exclude each other.
    """

    base: str
    summary: str
    operand_rule: str
    q_block: int | None = 128
    k_block: int | None = 64
    v_block: int | None = 64
    do_block: int | None = 128
    operand_form: str = "dequantised"
    centre_k: str = "mean"
    softmax: str = "row-max"
    window: int | None = None
    p_group: int = 64
    p_encoding: str = "group-amax"
    normaliser: str = "unrounded"
    quotient: str = "divide"
    tile: int = 64
    ds_scale: str = "tile-amax"
    saturate: bool = False
    scale_span: str = "head"
    store: str = "bf16"
    row_sum: str = "unspecified"
    delta: str = "matched"
    ds_cast: str = "nearest"

    def __post_init__(self) -> None:
        for name, words in VOCABULARY.items():
            if getattr(self, name) not in words:
                raise ContractError(
                    f"{name}={getattr(self, name)!r}",
                    rule=f"{name} is one of {', '.join(words)}",
                    fix="use a word of that list",
                )
        get_rule(self.operand_rule)
        for wrong, rule, fix in self._exclusions():
            if wrong:
                raise ContractError(self.name, rule=rule, fix=fix)

    def _exclusions(self) -> tuple[tuple[bool, str, str], ...]:
        windowed = self.window is not None
        blocks = (self.q_block, self.k_block, self.v_block, self.do_block)
        sides = [side for side in (*blocks, self.tile, self.p_group) if side is not None]
        return (
            (
                any(side < 1 or PAD % side for side in sides),
                f"blocks, tiles and groups are divisors of the padding, {PAD}",
                "use 1, 2, 4, ... 128",
            ),
            (
                windowed and any(block and block % (self.window or 1) for block in blocks),
                "on codes a window has one scale",
                "make every block a multiple of the window",
            ),
            (
                not windowed
                and (self.row_sum != "unspecified" or self.ds_scale == "tile-exponent"),
                "the quad order and the tile exponent are those of a windowed schedule",
                "set a window too, or row_sum='unspecified' and ds_scale='tile-amax'",
            ),
            (
                self.ds_cast == "zero-sum" and self.tile != CHAIN_TILE,
                f"the zero-sum chains are laid out in tiles of {CHAIN_TILE}",
                f"use tile={CHAIN_TILE}",
            ),
            (
                self.delta == "associated" and self.normaliser != "codes",
                "the associated delta is zero-sum only if l sums the rounded codes",
                "use normaliser='codes'",
            ),
            (
                windowed != (self.softmax == "window-max"),
                "a window goes with softmax='window-max' and with nothing else",
                "set both or neither",
            ),
            (
                windowed != (self.operand_form == "codes"),
                "codes need one scale per window, and a window needs codes",
                "set operand_form='codes' together with a window",
            ),
            (
                windowed and not self.window == self.tile == self.p_group,
                "one window is one P group and one tile",
                "use the same width for all three",
            ),
        )

    @property
    def name(self) -> str:
        """``base`` or ``base:key=value,...`` with every field that differs from that contract."""
        plain = _REGISTERED.get(self.base)
        if plain is None:
            return self.base
        rest = [f.name for f in fields(self) if f.name not in ("summary", *MODIFIERS)]
        words = [
            f"{key}={getattr(self, key)}"
            for key in (*MODIFIERS, *rest)
            if getattr(self, key) != getattr(plain, key)
        ]
        return self.base + (":" + ",".join(words) if words else "")

    @property
    def bit_exact(self) -> bool:
        """Whether every order is stated, so that the outputs are known bit for bit."""
        return self.operand_form == "codes" and self.row_sum != "unspecified"

    def to_json(self) -> dict[str, object]:
        """All fields, ready for json, with the canonical name."""
        return {"name": self.name, **asdict(self)}


_REGISTERED: dict[str, Contract] = {}


def register(contract: Contract) -> Contract:
    """Makes a contract the one that its base names."""
    _REGISTERED[contract.base] = contract
    return contract
