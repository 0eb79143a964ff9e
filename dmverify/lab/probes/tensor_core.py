"""Runs a wgmma form on the GPU."""

from __future__ import annotations

import numpy as np
import torch

from dmverify.lab.probes.device import Grid, compile_text, launch
from dmverify.lab.probes.forms import Tiles
from dmverify.lab.probes.wgmma_source import Form, source


def on_gpu(form: Form, made: Tiles) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Operands as tensors on the GPU; C as float32 or float16."""
    a, b = (torch.from_numpy(x).cuda() for x in (made.a, made.b))
    c = torch.from_numpy(made.c.view(np.float32 if form.accumulator == "f32" else np.float16))
    return a, b, c.cuda()


def run(form: Form, a: torch.Tensor, b: torch.Tensor, *, c: torch.Tensor) -> torch.Tensor:
    """Bits of D for tiles on the GPU, int32 (f32) or int16 (f16), (tiles, 64, n)."""
    d = torch.full_like(c, -1, dtype=torch.int32 if form.accumulator == "f32" else torch.int16)
    args = [a, b, c, d, np.int32(form.scale_d)]
    build = compile_text(source(form))
    launch(build, "probe", Grid(len(a), 128, form.shared_bytes), args)
    return d
