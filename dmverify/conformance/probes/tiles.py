"""The wgmma forms and operand families that are recorded, and the run of one form on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from .device import compile_text, launch
from .operands import FAMILIES, Operands, Stream, operands
from .wgmma_source import Form, source

_F16 = "f16"
FORMS: tuple[Form, ...] = (
    Form(),
    Form(a_from="registers"),
    *(Form(n=n) for n in (8, 16, 24, 128, 136, 192, 248, 256)),
    Form(n=256, a_from="registers"),
    Form(a_type="e5m2", b_type="e5m2"),
    Form(a_type="e4m3", b_type="e5m2"),
    Form(a_type="e5m2", b_type="e4m3"),
    Form(a_type="e5m2", b_type="e5m2", a_from="registers"),
    Form(scale_d=0),
    Form(scale_a=-1),
    Form(scale_b=-1),
    Form(scale_a=-1, scale_b=-1),
    Form(scale_a=-1, a_from="registers"),
    *(Form(k=256, commit=commit) for commit in ("one", "each", "wait")),
    *(Form(k=128, a_from="registers", commit=commit) for commit in ("one", "each", "wait")),
    Form(n=256, k=64),
    Form(accumulator=_F16),
    Form(accumulator=_F16, a_from="registers"),
    *(Form(accumulator=_F16, n=n) for n in (8, 128, 256)),
    Form(accumulator=_F16, a_type="e5m2", b_type="e5m2"),
    Form(accumulator=_F16, a_type="e4m3", b_type="e5m2"),
    Form(accumulator=_F16, a_type="e5m2", b_type="e4m3"),
    Form(accumulator=_F16, scale_d=0),
    Form(accumulator=_F16, scale_a=-1),
    Form(accumulator=_F16, k=256),
)  # fmt: skip


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


def _half_bits(c: NDArray[np.uint32], seed: str) -> NDArray[np.uint16]:
    """Half the accumulators rounded to f16, the other half any 16 bits."""
    stream = Stream(seed)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = c.view(np.float32).astype(np.float16).view(np.uint16)
    raw = stream.below(1 << 16, *c.shape).astype(np.uint16)
    return np.where(stream.below(2, *c.shape) == 0, raw, rounded)


def tiles(form: Form, family: str, *, count: int) -> Tiles:
    """The operands of `count` tiles of one form and family."""
    shape = (count, form.n, form.k)
    made: Operands = operands(family, form.a_type, b_type=form.b_type, shape=shape)
    c = made.c if form.accumulator == "f32" else _half_bits(made.c, f"{family}/{shape}")
    return Tiles(made.a, made.b, c)


def run(form: Form, made: Tiles) -> NDArray[np.uint32] | NDArray[np.uint16]:
    """Bits of D for the tiles, from the GPU."""
    wide = form.accumulator == "f32"
    signed = np.int32 if wide else np.int16
    a, b = (torch.from_numpy(x).cuda() for x in (made.a, made.b))
    c = torch.from_numpy(made.c.view(signed)).cuda()
    d = torch.full_like(c, -1)
    args = [a, b, c, d, np.int32(form.scale_d)]
    build = compile_text(source(form))
    launch(
        build, "probe", blocks=len(made.a), threads=128, args=args, shared_bytes=form.shared_bytes
    )
    return d.cpu().numpy().view(np.uint32 if wide else np.uint16)


def families() -> tuple[str, ...]:
    """Names of the operand families."""
    return tuple(FAMILIES)
