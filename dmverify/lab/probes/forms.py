"""The wgmma forms that are recorded, and the operands of each.

Secondary forms use small tiles: what they must show is that a form changes no bit, and n is varied
on its own. With n of 128 and more three families suffice for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmverify.lab.probes.operands import FAMILIES, Stream, operands
from dmverify.lab.probes.wgmma_source import Form

_COMMITS = ("one", "each", "wait")
_F16 = "f16"
FORMS: tuple[Form, ...] = (
    Form(),
    Form(a_from="registers"),
    *(Form(n=n) for n in (8, 24, 128, 136, 256)),
    Form(n=256, a_from="registers"),
    *(Form(n=16, a_type=a, b_type=b) for a, b in (("e5m2", "e5m2"), ("e4m3", "e5m2"))),
    Form(n=16, a_type="e5m2", b_type="e4m3"),
    Form(n=16, a_type="e5m2", b_type="e5m2", a_from="registers"),
    Form(n=16, scale_d=0),
    Form(n=16, scale_a=-1),
    Form(n=16, scale_b=-1),
    Form(n=16, scale_a=-1, scale_b=-1),
    Form(n=16, scale_a=-1, a_from="registers"),
    *(Form(n=16, k=256, commit=commit) for commit in _COMMITS),
    *(Form(n=16, k=128, a_from="registers", commit=commit) for commit in _COMMITS),
    Form(n=16, accumulator=_F16),
    Form(n=16, accumulator=_F16, a_from="registers"),
    Form(n=128, accumulator=_F16),
    Form(n=16, accumulator=_F16, a_type="e5m2", b_type="e5m2"),
    Form(n=16, accumulator=_F16, a_type="e4m3", b_type="e5m2"),
    Form(n=16, accumulator=_F16, a_type="e5m2", b_type="e4m3"),
    Form(n=16, accumulator=_F16, scale_d=0),
    Form(n=16, accumulator=_F16, scale_a=-1),
    Form(n=16, accumulator=_F16, k=256),
)
_WIDE_FAMILIES = ("random", "cancelling", "special-codes")


@dataclass(frozen=True)
class Tiles:
    """Operands in the accumulator type of their form.

    Attributes:
        a: Codes, (tiles, 64, k).
        b: Codes, (tiles, n, k).
        c: Bits of C, (tiles, 64, n), uint32 or uint16.
    """

    a: NDArray[np.uint8]
    b: NDArray[np.uint8]
    c: NDArray[np.uint32] | NDArray[np.uint16]


def families(form: Form) -> tuple[str, ...]:
    """The operand families of one form."""
    return _WIDE_FAMILIES if form.n >= 128 else tuple(FAMILIES)


def tiles(form: Form, family: str, *, count: int = 1, seed: int = 0) -> Tiles:
    """The operands of `count` tiles of one form and family."""
    shape = (count, form.n, form.k)
    made = operands(family, form.a_type, b_type=form.b_type, shape=shape, seed=seed)
    c = made.c if form.accumulator == "f32" else _half_bits(made.c, f"{family}/{shape}@{seed}")
    return Tiles(made.a, made.b, c)


def all_tiles(form: Form) -> Tiles:
    """One tile of each of the form's families, in their order."""
    made = [tiles(form, family) for family in families(form)]
    parts = [(t.a, t.b, t.c) for t in made]
    a, b, c = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Tiles(a, b, c)


def _half_bits(c: NDArray[np.uint32], name: str) -> NDArray[np.uint16]:
    """Half the accumulators rounded to f16, the other half any 16 bits."""
    stream = Stream(name)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = c.view(np.float32).astype(np.float16).view(np.uint16)
    raw = stream.below(1 << 16, *c.shape).astype(np.uint16)
    return np.where(stream.below(2, *c.shape) == 0, raw, rounded)
