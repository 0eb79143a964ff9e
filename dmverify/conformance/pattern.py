"""What failed elements have in common: where they lie, and what stands there instead.

A pattern is plain data: ``checks.hull`` and ``checks.traits`` find it, ``report`` puts it in words,
and ``causes`` compares it with those of known faults.
"""

from __future__ import annotations

from dataclasses import dataclass

AXES = {
    **dict.fromkeys(("o", "dq"), ("batch", "query", "head", "channel")),
    **dict.fromkeys(("dk", "dv"), ("batch", "key", "key head", "channel")),
    **dict.fromkeys(("lse", "delta", "row"), ("batch", "head", "query")),
    **dict.fromkeys(("sum of dv", "sum of dk"), ("batch", "key head", "channel")),
}
"""What the axes of an output count."""


@dataclass(frozen=True)
class Span:
    """Where failed elements lie along one axis.

    Attributes:
        axis: What it counts.
        first: Smallest index.
        last: Largest index.
        count: How many indices have a failed element.
        size: How many there are.
        step: Distance of these indices if it is the same between all of them, else 0; 1 for one.
    """

    axis: str
    first: int
    last: int
    count: int
    size: int
    step: int = 1

    @property
    def whole(self) -> bool:
        """Whether every index has a failed element."""
        return self.count == self.size


@dataclass(frozen=True)
class Trait:
    """What failed elements are, compared with what is due.

    | kind | each failed element is | value | axis |
    |---|---|---|---|
    | nan | NaN where a number is due | | |
    | number | a number where NaN is due | | |
    | infinite | infinite where a finite number is due | | |
    | zero | 0 where another number is due | | |
    | factor | a constant times what is due | the factor | |
    | own-factor | what is due times a factor that each of these has for itself | | these |
    | offset | what is due plus a constant | the constant | |
    | shifted | what is due some places before it | places | along which |
    | smaller, larger | of a smaller, larger magnitude than is due | | |
    | without-key | LSE as it would be without the key that ``name`` says | | |

    Attributes:
        kind: As in the table.
        share: The fraction of the failed elements that are so.
        value: As in the table.
        axis: As in the table.
        name: What the value is known as, such as the softmax scale; else empty.
    """

    kind: str
    share: float
    value: float = 0.0
    axis: str = ""
    name: str = ""


@dataclass(frozen=True)
class Heat:
    """Margins of the worst slice of an output, over two of its axes, as a picture shows them.

    Attributes:
        at: Where the slice lies on the other axes, in words.
        axes: What the two axes count.
        sizes: How many indices they have.
        cells: The largest margin of each cell, at most 32 x 32 cells.
    """

    at: str
    axes: tuple[str, str]
    sizes: tuple[int, int]
    cells: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Pattern:
    """The failed elements of one output.

    Attributes:
        output: Name of the output.
        failed: How many failed.
        of: How many were compared.
        where: One span an axis, in the output's order.
        traits: What they are, the most telling first.
        error: Root mean square of their distance over that of what is due; NaN where not known.
        heat: How far outside they are, in the slice of the worst one.
    """

    output: str
    failed: int
    of: int
    where: tuple[Span, ...] = ()
    traits: tuple[Trait, ...] = ()
    error: float = float("nan")
    heat: Heat | None = None
