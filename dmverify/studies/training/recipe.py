"""How attention computes, as data: what a run of a study varies.

| field | words |
|---|---|
| arithmetic | exact (float32), bf16 (inputs and output rounded), fp8 (simulated), kernel |
| delta | stale, consistent, matched, renormalized, shifted, associated, compensated |
| centre_k | none, mean (over the keys of a head, before the cast) |
| normaliser | unrounded, codes: what O is divided by |
| ds_cast | none, nearest, zero-sum, stochastic |
| ds_format | e4m3, e5m2 |
| p_cast | amax (a scale a row and group), max-shift (2^8 for every row, as FlashAttention-3) |
| dp | fp8, bf16 (of operands that were not cast) |
| blocks | article (128-row Q and dO, 64-key K, V and P groups, 64 x 64 tiles of dS), head, mx |
| store | fp32, bf16: dQ, dK and dV as they leave |
| act | see ``ACTS`` |

The scale of a block is amax / 448 with amax at least 2^-100, as ``bundled`` has it; codes saturate.
``mx``: blocks of 32 along what is contracted, scales powers of two (OCP Microscaling Formats 1.0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

ACTS: MappingProxyType[str, str] = MappingProxyType(
    {
        "": "nothing",
        "project": "the mean over the keys of a head is taken out of dK",
        "freeze": "K loses its mean over the keys in float32 before attention, dK too",
        "inject": "the mean over the keys of dK is replaced by that of a stale delta",
        "stale-dq": "dQ is what a stale delta gives, dK what the recipe's delta gives",
        "stale-dk": "dK is what a stale delta gives, dQ what the recipe's delta gives",
        "alternate": "what dS has more than matched's has its sign turned in every other row",
    }
)
"""Interventions."""


@dataclass(frozen=True)
class Recipe:
    """See the table above."""

    arithmetic: str = "fp8"
    delta: str = "matched"
    centre_k: str = "mean"
    normaliser: str = "unrounded"
    ds_cast: str = "nearest"
    ds_format: str = "e4m3"
    p_cast: str = "amax"
    dp: str = "fp8"
    blocks: str = "article"
    store: str = "fp32"
    act: str = ""

    @property
    def name(self) -> str:
        """Arithmetic and delta, then what differs from the article's."""
        plain = Recipe(self.arithmetic, self.delta)
        changed = [
            f"{field}={value}"
            for field, value in vars(self).items()
            if value != getattr(plain, field)
        ]
        what = self.arithmetic if self.arithmetic in ("exact", "bf16") else self.delta
        head = f"kernel {what}" if self.arithmetic == "kernel" else what
        return ", ".join([head, *changed])

    def but(self, **changes: str) -> Recipe:
        """The recipe with other words."""
        return replace(self, **changes)


EXACT = Recipe("exact")
BF16 = Recipe("bf16")


def fp8(delta: str, **words: str) -> Recipe:
    """A simulated recipe."""
    return Recipe("fp8", delta, **words)


def kernel(delta: str, **words: str) -> Recipe:
    """The bundled kernel: it centres K, divides by the codes' sum and stores in BF16."""
    stated = {"normaliser": "codes", "store": "bf16"} | words
    return Recipe("kernel", delta, **stated)
