"""Shapes to time: ``B,H,Hkv,N,D`` or ``B,H,Hkv,N,D,full``."""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.errors import InputError


@dataclass(frozen=True)
class Shape:
    """One attention call; queries and keys have one length.

    Attributes:
        batch: Sequences.
        heads: Query heads.
        kv_heads: Key heads.
        tokens: Queries, and keys.
        head_dim: Channels.
        causal: Bottom-right causal mask.
    """

    batch: int
    heads: int
    kv_heads: int
    tokens: int
    head_dim: int
    causal: bool = True

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.tokens

    @property
    def keys(self) -> int:
        """Number of keys."""
        return self.tokens

    @property
    def work(self) -> float:
        """Floating-point operations of a forward pass, by the usual count."""
        pairs = self.tokens**2 * (0.5 if self.causal else 1.0)
        return 4.0 * self.batch * self.heads * pairs * self.head_dim

    def __str__(self) -> str:
        words = [self.batch, self.heads, self.kv_heads, self.tokens, self.head_dim]
        return ",".join(map(str, words)) + ("" if self.causal else ",full")


DEFAULT = (
    Shape(1, 16, 16, 8192, 128),
    Shape(1, 16, 16, 16384, 128),
    Shape(1, 8, 8, 8192, 256),
    Shape(1, 64, 8, 16384, 128),
    Shape(1, 16, 16, 8192, 64),
)
"""What the table of speeds shows."""


def parse_shape(text: str) -> Shape:
    """The shape that a text names.

    Raises:
        InputError: If it is not ``B,H,Hkv,N,D`` with positive numbers, or ``,full`` behind it.

    >>> str(parse_shape("1,16,16,8192,128,full"))
    '1,16,16,8192,128,full'
    """
    words = text.split(",")
    full = words[-1:] == ["full"]
    try:
        numbers = [int(word) for word in (words[:-1] if full else words)]
    except ValueError:
        numbers = []
    good = len(numbers) == 5 and all(n > 0 for n in numbers)
    if not good or numbers[1] % numbers[2]:
        raise InputError(
            repr(text),
            rule="a shape reads B,H,Hkv,N,D with positive numbers, Hkv dividing H",
            fix="write for example 1,16,16,8192,128 or 1,16,16,8192,128,full",
        )
    batch, heads, kv_heads, tokens, head_dim = numbers
    return Shape(batch, heads, kv_heads, tokens, head_dim, not full)
