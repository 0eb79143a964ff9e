"""Compares the specification with this machine's GPU at a scale that recordings cannot hold.

`dmverify lab probe-verify [SEEDS [PART ...]]` with the parts ``exhaustive`` (all
2^32 operands of every instruction of one operand), ``arithmetic`` and ``tensor-core`` (SEEDS
batches of fresh operands for each recorded form with an f32 accumulator and for every n), all by
default. The model runs on the GPU too, on torch tensors. Exits 1 if a bit differed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
import torch

from dmverify.lab.probes import model
from dmverify.lab.probes.arith_operands import OPERATIONS, arith_operands
from dmverify.lab.probes.forms import FORMS, families, tiles
from dmverify.lab.probes.replay import Replay
from dmverify.lab.probes.sweeps import SWEEPS, outputs, run_arithmetic
from dmverify.lab.probes.tensor_core import on_gpu, run
from dmverify.lab.probes.wgmma_source import Form

_CHUNK = 1 << 26
_TILE_COLUMNS = 1 << 13  # n times tiles of one batch


def exhaustive(name: str) -> Replay:
    """All 2^32 operands of one instruction."""
    mismatches = 0
    for base in range(0, 1 << 32, _CHUNK):
        index = torch.arange(base, base + _CHUNK, device="cuda", dtype=torch.int64)
        x = (index - ((index >> 31) << 32)).to(torch.int32).view(torch.float32)
        got = model.bits(model.UNARY[name](x))
        want = outputs(name, base, _CHUNK)
        mismatches += int(torch.count_nonzero(got.view(want.dtype) != want))
    return Replay(SWEEPS[name].ptx, 1 << 32, mismatches)


def arithmetic() -> Iterator[Replay]:
    """All arithmetic instructions on 7 * 2^18 operand triples."""
    operands = torch.from_numpy(arith_operands(1 << 18).view(np.int32)).cuda()
    for name in OPERATIONS:
        want = run_arithmetic(name, operands)
        got = model.bits(model.arithmetic(name, operands.view(torch.float32)))
        yield Replay(name, want.numel(), int(torch.count_nonzero(got != want)))


def tensor_core(seed: int) -> Iterator[Replay]:
    """One batch of every f32 form and family, and of every n."""
    every_n = tuple(Form(n=n) for n in range(8, 257, 8))
    for form in dict.fromkeys(form for form in FORMS + every_n if form.accumulator == "f32"):
        count = max(1, _TILE_COLUMNS // form.n)
        for family in families(form):
            a, b, c = on_gpu(form, tiles(form, family, count=count, seed=seed))
            want = run(form, a, b, c=c)
            got = model.bits(model.tensor_core(form, a, b, c=c))
            mismatches = int(torch.count_nonzero(got != want))
            yield Replay(f"{form.name}/{family}@{seed}", want.numel(), mismatches)


def compare_all(seeds: int, parts: Sequence[str], say: Callable[[str], None]) -> bool:
    """Runs the comparisons of the given parts, or of all; whether nothing differs."""
    wrong = compared = 0
    work = {
        "exhaustive": (exhaustive(name) for name in SWEEPS),
        "arithmetic": arithmetic(),
        "tensor-core": chain.from_iterable(tensor_core(seed) for seed in range(1, seeds + 1)),
    }
    for result in chain.from_iterable(work[part] for part in parts or work):
        wrong, compared = wrong + result.mismatches, compared + result.outputs
        if result.mismatches or "@" not in result.name:
            say(f"{result.name}: {result.mismatches} of {result.outputs} differ")
    say(f"{wrong} of {compared} outputs differ")
    return not wrong
